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
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from compaction_hooks.runtime.effects import Aborted, Failure, Success
from compaction_hooks.runtime.guards import GuardedSignal, Signal

if TYPE_CHECKING:  # slow to import, and needed only when something is due
    import asyncio
    from concurrent.futures import Future

R = TypeVar("R")
AnyFuture: TypeAlias = "asyncio.Future[R] | Future[R]"

logger = logging.getLogger("compaction_hooks")

POLL_SECONDS = 0.05
"""How often a signal is looked at that cannot be awaited (a `threading.Event`, a flag)."""


class GuardedCall:
    """Calls one thing, sync or async, for a limited time. While a call hangs in its thread, no other is begun.

    What it raises comes back as a `Failure`, no `Exception` too. `KeyboardInterrupt` is the person at the keyboard: from what runs
    in the caller's loop it goes on to the caller. A call that is cancelled (async) or not waited for any longer is left behind: its
    answer is thrown away.

    Args:
        name: What is called, for errors: "the store".
        within: One that several share; what is left behind here counts there too.
        most: So many calls are left behind at most.

    Attributes:
        paused_until: Until when (monotonic seconds) the owner wants no call; kept for the owner.
    """

    def __init__(self, name: str, *, within: GuardedCall | None = None, most: int = 1) -> None:
        self._name = name
        self._within = within
        self._most = most
        self._abandoned: list[Future[Success | Failure]] = []
        self.paused_until = -math.inf

    @property
    def is_hanging(self) -> bool:
        """Whether as many calls hang as may be left behind."""
        self._abandoned = [thread for thread in self._abandoned if not thread.done()]
        return len(self._abandoned) >= self._most or (self._within is not None and self._within.is_hanging)

    async def call(
        self,
        function: Callable[..., object],
        *arguments: object,
        seconds: float,
        signal: Signal | None = None,
        is_sync: bool = False,
    ) -> Success | Failure | Aborted:
        """Return the answer of `function`, or `Aborted` when the signal is set first.

        Args:
            is_sync: Whether to wait in this thread, and to await nothing: what is async runs in a loop of its own in the other one.
        """
        if self.is_hanging:
            return Failure(
                TimeoutError(f"{self._name} still hangs in an earlier call: give what it waits for a timeout")
            )
        thread, task = _begin(function, arguments, seconds, is_sync)
        try:
            is_aborted = await until_done(task, seconds, signal, is_sync)
            if task.cancelled():  # by the helper itself: nobody here cancelled it yet
                return Failure(RuntimeError(f"{self._name} was cancelled"))
            if task.done():
                return task.result()
            late = TimeoutError(f"{self._name} did not answer within {round(seconds, 2):g} seconds")
            return Aborted() if is_aborted else Failure(late)
        finally:
            self._abandon(thread)
            task.cancel()

    def _abandon(self, thread: Future[Success | Failure] | None) -> None:
        """Remember a call that runs on, if it does."""
        if thread is not None and not thread.done():
            self._abandoned.append(thread)
            if self._within is not None:
                self._within._abandon(thread)


def run_to_completion(coroutine: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("it awaits something")


async def until_done(future: AnyFuture[Any], seconds: float, signal: Signal | None, is_sync: bool) -> bool:
    """Wait until a future is done, for so many seconds at most; return whether the signal was set before.

    Args:
        future: One of a thread's where `is_sync`, else one of the loop's.
    """
    if not is_sync:
        import asyncio

        task, watch = cast("asyncio.Future[Any]", future), asyncio.ensure_future(_until_set(signal))
        try:
            await asyncio.wait((task, watch), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return watch.done()
        finally:
            watch.cancel()
    from concurrent.futures import wait

    while not future.done() and seconds > 0:
        step = seconds if signal is None else min(seconds, POLL_SECONDS)
        wait((cast("Future[Any]", future),), timeout=step)
        if signal is not None and signal.is_set():
            return True
        seconds -= step
    return False


async def _until_set(signal: Signal | None) -> None:
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


def _begin(
    function: Callable[..., object], arguments: Sequence[object], seconds: float, is_sync: bool
) -> tuple[Future[Success | Failure] | None, AnyFuture[Success | Failure]]:
    """Begin a call; return the thread it runs in, or None, and the future of its answer."""
    if is_sync:
        thread = in_thread(lambda: _resolve(function(*arguments), seconds))
        return thread, thread
    import asyncio

    if is_async(function):
        return None, asyncio.ensure_future(_capture(lambda: function(*arguments)))
    thread = in_thread(function, *arguments)
    return thread, asyncio.ensure_future(_capture_from(thread))


async def _capture(function: Callable[[], object]) -> Success | Failure:
    import asyncio

    try:
        result = function()
        return Success(await result if inspect.isawaitable(result) else result)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in a Rust module is no `Exception`
        return Failure(error)


async def _capture_from(thread: Future[Success | Failure]) -> Success | Failure:
    import asyncio

    answer = await asyncio.wrap_future(thread)
    return answer if isinstance(answer, Failure) else await _capture(lambda: answer.value)


def _resolve(result: object, seconds: float) -> object:
    """The result; of an awaitable, what it gives within this time in a new loop in this thread."""
    if not inspect.isawaitable(result):
        return result
    import asyncio

    async def in_time() -> object:
        # A little more than the caller waits, so that the caller's own error is the one that is seen. No second task, as `wait_for`
        # makes one: a helper knows by it that its loop ends with this call.
        async with asyncio.timeout(seconds + POLL_SECONDS):
            return await result

    return asyncio.run(in_time())


def in_thread(function: Callable[..., object], *arguments: object) -> Future[Success | Failure]:
    """Run a function in a daemon thread: one that hangs must not keep the program from ending."""
    from concurrent.futures import Future

    future: Future[Success | Failure] = Future()
    future.set_running_or_notify_cancel()  # from here on it is done when the thread is, whatever becomes of who waits
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer: Success | Failure = Success(context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001 - what ends a thread silently would be waited for in vain
            answer = Failure(error)
        future.set_result(answer)

    try:
        threading.Thread(target=work, name="compaction-helper", daemon=True).start()
    except RuntimeError as error:  # too many threads, or the interpreter is shutting down
        future.set_result(Failure(error))
    return future
