"""Calls what is the host's (summariser, store, event handlers) so that neither its errors nor its silence harm the agent.

What is `async def` runs in the caller's event loop. Anything else runs in a daemon thread with the caller's context variables, from
sync callers too: a function that hangs can be left behind in a thread of its own, never in the caller's.

asyncio is imported where it is first needed, so that a sync program never loads it.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from compaction_hooks.runtime.effects import Aborted, Answered, Failure
from compaction_hooks.runtime.guards import GuardedSignal, Signal

if TYPE_CHECKING:  # slow to import, and needed only when something is due
    from concurrent.futures import Future

logger = logging.getLogger("compaction_hooks")

POLL_SECONDS = 0.05
"""How often a signal is looked at that cannot be awaited (a `threading.Event`, a flag)."""


class Timebox:
    """Calls one thing, sync or async, for a limited time. While a call hangs in its thread, no other is begun.

    What it raises comes back as a `Failure`, no `Exception` too. `KeyboardInterrupt` is the person at the keyboard: from what runs
    in the caller's loop it goes on to the caller. A call that is cancelled (async) or not waited for any longer is left behind: its
    answer is thrown away.

    Args:
        name: What is called, for errors: "the store".
        within: One that several share; what is left behind here counts there too.
        most: So many calls are left behind at most.

    Attributes:
        rests_until: Until when (monotonic seconds) the owner wants no call; kept for the owner.
    """

    def __init__(self, name: str, *, within: Timebox | None = None, most: int = 1) -> None:
        self._name = name
        self._within = within
        self._most = most
        self._left: list[Future[Answered | Failure]] = []
        self.rests_until = -math.inf

    @property
    def is_stuck(self) -> bool:
        """Whether as many calls hang as may be left behind."""
        self._left = [thread for thread in self._left if not thread.done()]
        return len(self._left) >= self._most or (self._within is not None and self._within.is_stuck)

    async def call(
        self, function: Callable[..., object], *arguments: object, seconds: float, signal: Signal | None = None
    ) -> Answered | Failure | Aborted:
        """Return what `function` gives, or `Aborted` when the signal is set first."""
        import asyncio

        if self.is_stuck:
            return self._still_hangs()
        thread = None if is_async(function) else in_thread(function, *arguments)
        answer = _given_here(function, *arguments) if thread is None else _given_there(thread)
        task = asyncio.ensure_future(answer)
        watch = None if signal is None else asyncio.ensure_future(until_set(signal))
        try:
            awaited = {task} if watch is None else {task, watch}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.cancelled():  # by the helper itself: nobody here cancelled it yet
                return Failure(RuntimeError(f"{self._name} was cancelled"))
            if task.done():
                return task.result()
            return Aborted() if watch is not None and watch.done() else self._timed_out(seconds)
        finally:
            self._leave(thread)
            task.cancel()
            if watch is not None:
                watch.cancel()

    def call_sync(
        self, function: Callable[..., object], *arguments: object, seconds: float, signal: Signal | None = None
    ) -> Answered | Failure | Aborted:
        """As `call`, waiting in this thread; what is async runs in a loop of its own in the other one."""
        if self.is_stuck:
            return self._still_hangs()
        thread = in_thread(lambda: _finished(function(*arguments), seconds))
        left = seconds
        try:
            while left > 0:
                try:
                    return thread.result(timeout=min(left, left if signal is None else POLL_SECONDS))
                except TimeoutError:
                    left -= left if signal is None else POLL_SECONDS
                if signal is not None and signal.is_set():
                    return Aborted()
            return self._timed_out(seconds)
        finally:
            self._leave(thread)

    def _leave(self, thread: Future[Answered | Failure] | None) -> None:
        """Remember a call that runs on, if it does."""
        if thread is not None and not thread.done():
            self._left.append(thread)
            if self._within is not None:
                self._within._leave(thread)

    def _timed_out(self, seconds: float) -> Failure:
        return Failure(TimeoutError(f"{self._name} did not answer within {round(seconds, 2):g} seconds"))

    def _still_hangs(self) -> Failure:
        return Failure(TimeoutError(f"{self._name} still hangs in an earlier call: give what it waits for a timeout"))


async def until_set(signal: Signal | None) -> None:
    """Return when the signal is set; never without one."""
    import asyncio

    if signal is None:
        await asyncio.Event().wait()
        return
    event = signal.signal if isinstance(signal, GuardedSignal) else signal
    if isinstance(event, asyncio.Event):
        try:
            await event.wait()
            return
        except Exception:  # noqa: BLE001 - it belongs to another loop, that waited on it first: there it can only be looked at
            logger.debug("an event of another loop is polled")
    while not signal.is_set():  # noqa: ASYNC110 - such a signal offers nothing to await
        await asyncio.sleep(POLL_SECONDS)


def is_async(function: object) -> bool:
    """Whether calling it gives an awaitable, as far as that can be seen beforehand."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__dict__.get("__call__"))


async def _given_here(function: Callable[..., object], *arguments: object) -> Answered | Failure:
    import asyncio

    try:
        result = function(*arguments)
        return Answered(await result if inspect.isawaitable(result) else result)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in a Rust module is no `Exception`
        return Failure(error)


async def _given_there(thread: Future[Answered | Failure]) -> Answered | Failure:
    import asyncio

    answer = await asyncio.wrap_future(thread)
    if isinstance(answer, Answered) and inspect.isawaitable(answer.value):
        return await _given_here(_itself, answer.value)
    return answer


def _finished(result: object, seconds: float) -> object:
    """The result; of an awaitable, what it gives within this time in a new loop in this thread."""
    if not inspect.isawaitable(result):
        return result
    import asyncio

    return asyncio.run(_in_time(result, seconds))


async def _in_time(awaitable: Awaitable[object], seconds: float) -> object:
    import asyncio

    # A little more than the caller waits, so that the caller's own error is the one that is seen.
    async with asyncio.timeout(seconds + POLL_SECONDS):
        return await awaitable


async def _itself(awaitable: Awaitable[object]) -> object:
    return await awaitable


def in_thread(function: Callable[..., object], *arguments: object) -> Future[Answered | Failure]:
    """Run a function in a daemon thread: one that hangs must not keep the program from ending."""
    from concurrent.futures import Future

    future: Future[Answered | Failure] = Future()
    future.set_running_or_notify_cancel()  # from here on it is done when the thread is, whatever becomes of who waits
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer: Answered | Failure = Answered(context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001 - what ends a thread silently would be waited for in vain
            answer = Failure(error)
        future.set_result(answer)

    try:
        threading.Thread(target=work, name="compaction-helper", daemon=True).start()
    except RuntimeError as error:  # too many threads, or the interpreter is shutting down
        future.set_result(Failure(error))
    return future
