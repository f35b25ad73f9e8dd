"""Stores of records: in memory, in one SQLite file, or in any key-value store.

A store holds, for each session id, records as JSON texts, and does not read them.
"""

from compaction_hooks.stores.key_value import KeyValue, KeyValueStore
from compaction_hooks.stores.memory import MemoryStore, RecordStore
from compaction_hooks.stores.sqlite import SQLiteStore

__all__ = ["KeyValue", "KeyValueStore", "MemoryStore", "RecordStore", "SQLiteStore"]
