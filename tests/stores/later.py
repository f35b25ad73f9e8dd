"""A store with async methods, for tests of what awaits one."""

import asyncio
from collections.abc import Sequence

from compaction_hooks.stores import MemoryStore, RecordStore


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
