"""Stores by kind and place, so that a child process can open the one its parent tests."""

import weakref
from pathlib import Path

from compaction_hooks.stores import RecordStore, SQLiteStore


def open_store(kind: str, where: str) -> RecordStore:
    """Open a store; asynchronous ones belong to the loop that uses them first."""
    match kind:
        case "sqlite":
            return SQLiteStore(where)
        case "redis":
            from compaction_adapters.redis import RedisStore
            from redis import Redis

            return RedisStore(Redis.from_url(where))
        case "redis.asyncio":
            from compaction_adapters.redis import RedisStore
            from redis.asyncio import Redis as AsyncRedis

            return RedisStore(AsyncRedis.from_url(where))
        case "postgres":
            from compaction_adapters.postgres import PostgresStore

            return PostgresStore(where)
        case "langgraph sqlite":
            return _langgraph_sqlite(where)
        case _:
            raise ValueError(kind)


def _langgraph_sqlite(where: str) -> RecordStore:
    import sqlite3

    from compaction_adapters.langgraph import BaseStoreRecordStore
    from langgraph.store.sqlite import SqliteStore

    connection = sqlite3.connect(where, timeout=10, isolation_level=None, check_same_thread=False)
    store = SqliteStore(connection)
    store.setup()
    records = BaseStoreRecordStore(store)
    weakref.finalize(records, connection.close)
    return records


def make_read_only(file: Path) -> None:
    """Let the header of a SQLite file ask for a newer SQLite to write it: read-only for every user, root included."""
    content = bytearray(file.read_bytes())
    content[18] = 3  # the file format's write version (https://www.sqlite.org/fileformat.html, 1.3.3)
    file.write_bytes(content)
