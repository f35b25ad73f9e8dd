"""Stores by kind and place, so that a child process can open the one its parent tests."""

import asyncio
import weakref
from collections.abc import Sequence
from pathlib import Path

from compaction_hooks.stores import MemoryStore, RecordStore, SQLiteStore


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


class LaterStore:
    """A store whose methods are coroutine functions, each of which waits once.

    Args:
        inner: The store with sync methods that keeps the records; None: one in memory.
    """

    def __init__(self, inner: RecordStore | None = None) -> None:
        self._inner = MemoryStore() if inner is None else inner

    async def load(self, session_id: str) -> Sequence[str]:
        await asyncio.sleep(0)
        return self._inner.load(session_id)  # type: ignore[return-value]

    async def append(self, session_id: str, record_id: str, record: str) -> None:
        await asyncio.sleep(0)
        self._inner.append(session_id, record_id, record)

    async def remove(self, session_id: str, record_id: str) -> None:
        await asyncio.sleep(0)
        self._inner.remove(session_id, record_id)


class OfOneLoop(LaterStore):
    """An async store whose connection belongs to the loop it was made in, as that of most async clients does."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def __getattribute__(self, name: str) -> object:
        if name in ("load", "append", "remove") and asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("attached to a different loop")
        return super().__getattribute__(name)
