"""The event loop that runs the awaitables of sync callers, in a daemon thread: one for a process.

A client such as `AsyncOpenAI` keeps its connections for the event loop of its first request. In a loop for each call it would find
connections of a loop that has ended, fail, and send a request again that was paid for.

asyncio is imported where it is first needed, so that a sync program never loads it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio

R = TypeVar("R")

BLOCKED_SECONDS, BLOCKED_RATIO = 1.0, 0.1
"""A loop that does not answer for this long, or for this part of the time that a call has, is blocked by a coroutine."""


class HelperLoops:
    """The helper loops of one process, the one used last first: only if it is blocked, another one is used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: list[asyncio.AbstractEventLoop] = []

    def run(self, awaitable: Awaitable[R], seconds: float) -> R:
        """Return the result of an awaitable; block this thread for so many seconds at most, unless the awaitable blocks its loop.

        Raises:
            TimeoutError: the awaitable had no result in time; it is cancelled.
            RuntimeError: no thread can be started.
        """
        import asyncio

        async def in_time() -> R:
            async with asyncio.timeout(seconds):
                return await awaitable

        loop = self._find(min(BLOCKED_SECONDS, seconds * BLOCKED_RATIO))
        return asyncio.run_coroutine_threadsafe(in_time(), loop).result()

    def _find(self, patience: float) -> asyncio.AbstractEventLoop:
        """Return a loop that answers within so many seconds, a new one if there is none."""
        with self._lock:
            loop = next((loop for loop in self._loops if _answers(loop, patience)), None)
            if loop is None:
                loop = _start_loop()
            else:
                self._loops.remove(loop)
            self._loops.insert(0, loop)
            return loop


_LOOPS_OF: dict[int, HelperLoops] = {}
"""By process id: after a fork, the child has the loops of its parent and not their threads."""


def helper_loops() -> HelperLoops:
    """Return the helper loops of this process."""
    return _LOOPS_OF.setdefault(os.getpid(), HelperLoops())


def _answers(loop: asyncio.AbstractEventLoop, patience: float) -> bool:
    answered = threading.Event()
    loop.call_soon_threadsafe(answered.set)
    return answered.wait(patience)


def _start_loop() -> asyncio.AbstractEventLoop:
    import asyncio

    loop = asyncio.new_event_loop()

    def serve() -> None:
        while True:
            with contextlib.suppress(
                BaseException
            ):  # a `KeyboardInterrupt` of a task stops the loop; the caller gets it too
                loop.run_forever()

    try:
        threading.Thread(target=serve, name="compaction-loop", daemon=True).start()
    except RuntimeError:
        loop.close()
        raise
    return loop
