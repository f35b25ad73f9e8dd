"""Stores of records: in memory, in one SQLite file, or in any key-value store.

A store holds, for each session id, records as JSON texts. A forgotten session has a tombstone among them (`is_tombstone`).
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Sequence
from typing import Protocol

from compaction_hooks.stores.key_value import KeyValue, KeyValueStore
from compaction_hooks.stores.sqlite import SQLiteStore
from compaction_hooks.stores.tombstones import TOMBSTONE_PREFIX, is_tombstone

__all__ = ["KeyValue", "KeyValueStore", "ListingStore", "MemoryStore", "RecordStore", "SQLiteStore", "is_tombstone"]


class RecordStore(Protocol):
    """Keeps compaction records. Each method may be sync or async. Errors never fail the agent; they are reported as events.

    Several workers may use one store at once. None of them changes a record, so a store needs no lock across calls: it must only
    never lose or tear an appended record.
    """

    def load(self, session_id: str, /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the session's records as JSON texts, in any order; empty for an unknown session."""
        ...

    def append(self, session_id: str, record_id: str, record: str, /) -> Awaitable[None] | None:
        """Add a record, which is ASCII text; does nothing when the session already has one with this id."""
        ...

    def remove(self, session_id: str, record_id: str, /) -> Awaitable[None] | None:
        """Take a record out; does nothing when there is none with this id."""
        ...


class ListingStore(RecordStore, Protocol):
    """A store that can tell which conversations it has: for `forget_prefix` and the command `compaction-hooks records`."""

    def session_ids(self, prefix: str = "", /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the ids of the sessions that have records and begin with `prefix`, in any order, each once.

        It may list sessions that have nothing but a tombstone (`is_tombstone`); the stores of this package do not.
        A store that does not keep a long id as it is may return another text for it, which its other methods take as the id,
        and which begins as the id does, as it is or quoted as in a URL.
        """
        ...


class MemoryStore:
    """Records for the life of the process. May be shared by threads, event loops and controllers."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, oldest first."""
        with self._lock:
            return list(self._sessions.get(session_id, {}).values())

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        with self._lock:
            self._sessions.setdefault(session_id, {}).setdefault(record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        with self._lock:
            records = self._sessions.get(session_id, {})
            records.pop(record_id, None)
            if not records:  # a session without records leaves nothing behind
                self._sessions.pop(session_id, None)

    def session_ids(self, prefix: str = "") -> Sequence[str]:
        """Return the ids of the sessions that have records and begin with `prefix`."""
        with self._lock:
            return [
                id
                for id, records in self._sessions.items()
                if id.startswith(prefix) and not all(name.startswith(TOMBSTONE_PREFIX) for name in records)
            ]
