"""Calls of the host's functions (summarizer, store, event handlers) whose errors and hangs do not harm the agent.

An `async def` runs in the caller's event loop, and for sync callers in the helper loop. Any other function runs in a daemon thread
with the caller's context variables, for sync callers too: the call can go on without a function that hangs in its own thread.

The helper loop runs in a daemon thread: one for a process. A client such as `AsyncOpenAI` keeps its connections for the event loop
of its first request. In a loop for each call it would find connections of a loop that has ended, fail, and send a request again
that was paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import math
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeAlias, cast

from compaction_hooks.runtime.effects import Aborted, Failure, Success
from compaction_hooks.runtime.guards import R, Signal

AnyFuture: TypeAlias = "asyncio.Future[R] | Future[R]"

POLL_SECONDS = 0.05
"""The interval at which the caller's signal is read: few kinds of signals can be awaited."""
SYNC_HELPER = "compaction-sync-helper"
"""The name of a thread that calls a function for a sync caller: by it, the adapters' summarizers know to block."""
BLOCKED_SECONDS, BLOCKED_RATIO = 1.0, 0.1
"""A loop that does not answer for this long, or for this part of the time that a call has, is blocked by a coroutine."""


class GuardedCall:
    """Calls a host-supplied function with a timeout. Refuses new calls while an earlier one still hangs in its thread.

    An error comes back as a `Failure`, one that is no `Exception` too; only a `KeyboardInterrupt` in the caller's loop is raised.
    A call that is cancelled or times out is abandoned: its answer is ignored.

    Args:
        name: The function's name in errors: "the store".
        within: A guarded call that several share; calls abandoned here count there too.
        most: The most abandoned calls that may hang at a time.

    Attributes:
        paused_until: The time (monotonic seconds) before which the owner makes no call; only the owner reads it.
    """

    def __init__(self, name: str, *, within: GuardedCall | None = None, most: int = 1) -> None:
        self._name = name
        self._within = within
        self._most = most
        self._abandoned: list[Future[Success | Failure]] = []
        self.paused_until = -math.inf

    @property
    def is_hanging(self) -> bool:
        """Whether as many calls hang as are allowed to."""
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
        """Return the answer of `function`, or `Aborted` if the signal is set first.

        Args:
            is_sync: Whether to block this thread and await nothing; an awaitable runs in the helper loop.
        """
        if self.is_hanging:
            return Failure(
                TimeoutError(f"{self._name} still hangs in an earlier call: give the operation it waits for a timeout")
            )

        thread, task = _begin(function, arguments, seconds, is_sync)
        try:
            is_aborted = await until_done(task, seconds, signal, is_sync)
            if task.cancelled():  # by the function itself: this code cancels only below
                return Failure(RuntimeError(f"{self._name} was cancelled"))
            if task.done():
                return task.result()
            late = TimeoutError(f"{self._name} did not answer within {round(seconds, 2):g} seconds")
            return Aborted() if is_aborted else Failure(late)
        finally:
            self._abandon(thread)
            task.cancel()

    def _abandon(self, thread: Future[Success | Failure] | None) -> None:
        """Count a call that still runs in its thread."""
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
    raise AssertionError("the coroutine awaits")


async def until_done(future: AnyFuture[Any], seconds: float, signal: Signal | None, is_sync: bool) -> bool:
    """Wait until a future is done, for so many seconds at most; return whether the signal was set first.

    Args:
        future: A future of a thread if `is_sync`, else one of the loop.
    """
    while not future.done() and seconds > 0:
        step = seconds if signal is None else min(seconds, POLL_SECONDS)
        if is_sync:
            wait((cast("Future[Any]", future),), timeout=step)
        else:
            await asyncio.wait((cast("asyncio.Future[Any]", future),), timeout=step)
        if signal is not None and signal.is_set():
            return True
        seconds -= step
    return False


def is_async(function: object) -> bool:
    """Return whether a call of this function returns an awaitable, as far as its definition shows."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__dict__.get("__call__"))


def _begin(
    function: Callable[..., object], arguments: Sequence[object], seconds: float, is_sync: bool
) -> tuple[Future[Success | Failure] | None, AnyFuture[Success | Failure]]:
    """Begin a call; return the thread it runs in, or None, and the future of its answer."""
    if is_sync:
        thread = in_thread(lambda: _resolve(function(*arguments), seconds), name=SYNC_HELPER)
        return thread, thread

    if is_async(function):
        return None, asyncio.ensure_future(_capture(lambda: function(*arguments)))
    thread = in_thread(function, *arguments)
    return thread, asyncio.ensure_future(_capture_from(thread))


async def _capture(function: Callable[[], object]) -> Success | Failure:
    try:
        result = function()
        return Success(await result if inspect.isawaitable(result) else result)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in a Rust module is no `Exception`
        return Failure(error)


async def _capture_from(thread: Future[Success | Failure]) -> Success | Failure:
    answer = await asyncio.wrap_future(thread)
    return answer if isinstance(answer, Failure) else await _capture(lambda: answer.value)


def _resolve(result: object, seconds: float) -> object:
    """Return a result; run an awaitable in the helper loop, for so many seconds at most."""
    if not inspect.isawaitable(result):
        return result
    # A little longer than the caller waits, so that the host sees the caller's error.
    return helper_loop().run(result, seconds + POLL_SECONDS)


def in_thread(
    function: Callable[..., object], *arguments: object, name: str = "compaction-helper"
) -> Future[Success | Failure]:
    """Run a function in a daemon thread: one that hangs must not keep the program from ending."""
    future: Future[Success | Failure] = Future()
    future.set_running_or_notify_cancel()  # a waiter can no longer cancel it: it ends with the thread
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer: Success | Failure = Success(context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001 - an error lost in the thread would leave its caller waiting
            answer = Failure(error)
        future.set_result(answer)

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:  # too many threads, or the interpreter is shutting down
        future.set_result(Failure(error))
    return future


class HelperLoop:
    """The helper loop of one process. If a coroutine blocks it, a new one takes its place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, awaitable: Awaitable[R], seconds: float) -> R:
        """Return the result of an awaitable; block this thread for so many seconds at most, unless the awaitable blocks its loop.

        Raises:
            TimeoutError: the awaitable had no result in time; it is cancelled.
            RuntimeError: no thread can be started.
        """

        async def in_time() -> R:
            async with asyncio.timeout(seconds):
                return await awaitable

        patience = min(BLOCKED_SECONDS, seconds * BLOCKED_RATIO)
        with self._lock:
            if self._loop is None or not _answers(self._loop, patience):
                self._loop = _start_loop()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(in_time(), loop).result()


_LOOP_OF: dict[int, HelperLoop] = {}
"""By process id: after a fork, the child has the loop of its parent and not its thread."""


def helper_loop() -> HelperLoop:
    """Return the helper loop of this process."""
    return _LOOP_OF.setdefault(os.getpid(), HelperLoop())


def _answers(loop: asyncio.AbstractEventLoop, patience: float) -> bool:
    answered = threading.Event()
    loop.call_soon_threadsafe(answered.set)
    return answered.wait(patience)


def _start_loop() -> asyncio.AbstractEventLoop:
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
