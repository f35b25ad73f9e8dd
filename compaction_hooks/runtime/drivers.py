"""Answer a flow's effects, for async callers and for sync ones. Nothing here decides anything.

A `GuardedCall` calls summarizer, store and event handlers: an error or a time-out comes back to the flow as a `Failure`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import Context, ContextVar
from functools import partial
from typing import Any, NamedTuple, cast

from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.events import EventHandler
from compaction_hooks.foreign import describe_error
from compaction_hooks.runtime.effects import (
    AskHost,
    AskStore,
    AskSummarizer,
    Begin,
    Effect,
    Emit,
    Failure,
    Flow,
    Instant,
    IsAborted,
    Now,
    Outcome,
    RunningCompaction,
    Send,
    Success,
    T,
    Wait,
    Work,
)
from compaction_hooks.runtime.guarded_call import GuardedCall, in_thread, is_async, run_to_completion, until_done
from compaction_hooks.runtime.guards import Signal, guard_stream, guard_stream_sync, system_clock
from compaction_hooks.stores import RecordStore
from compaction_hooks.summary.extractive import ExtractiveSummarizer
from compaction_hooks.summary.request import Summarizer

logger = logging.getLogger("compaction_hooks")

STORE_TIMEOUT_SECONDS = 10.0
"""After this a store counts as failed: the record stays in memory."""
LISTING_TIMEOUT_SECONDS = 600.0
"""Some stores read all their keys for a list of conversations, and no agent waits for it."""
HANDLER_TIMEOUT_SECONDS = 5.0
"""After this the call goes on without an event handler: an agent must not wait for its telemetry."""
HANDLER_COOLDOWN_SECONDS = 60.0
"""A handler that timed out gets no events for this long: each would cost the agent another time-out."""
WAIT_SUMMARIES = 2
"""Wait for another caller's compaction as long as two summaries take: it makes a second one if the history changed."""
HUNG_SUMMARIES = 8
"""The most hanging sync summarizers of all conversations of a controller together; each conversation leaves one at most."""
HUNG_QUESTIONS, HUNG_QUESTIONS_EACH = 8, 4
"""The same of the host's functions that compactions ask; a conversation has up to four, and one that hangs stops no other."""
_ASKING: ContextVar[tuple[RunningCompaction | None, ...]] = ContextVar("compaction_hooks_asking", default=())
"""The compactions that wait for an answer of the function of the host that runs here."""


class Services:
    """The host's services, with which drivers answer effects; shared by the conversations of a controller.

    Args:
        summarizer: The summarizer of every call; None leaves it to the options of each call.

    Attributes:
        seconds: Returns the clock's monotonic seconds.
        working: The lock of the one thread that computes for async callers: several threads would starve their event loops.
        summaries, storing, asking: The guarded calls of the summarizers, the store and the host's functions that compactions ask: a
            helper that hangs, hangs for all conversations.
        handlers: Each with its own guarded call: one that hangs does not silence the others.
    """

    def __init__(
        self,
        summarizer: Summarizer | None,
        store: RecordStore | None,
        handlers: Sequence[EventHandler],
        clock: Callable[[], Instant],
        summary_timeout_seconds: float,
    ) -> None:
        self.summarizer = summarizer
        self.store = store
        self.handlers = [(handler, GuardedCall("an event handler")) for handler in handlers]
        self.clock = clock
        self.seconds = time.monotonic if clock is system_clock else lambda: clock().monotonic
        # A thread cannot wait longer than TIMEOUT_MAX, so not `math.inf` seconds either.
        self.summary_timeout_seconds = min(summary_timeout_seconds, threading.TIMEOUT_MAX)

        self.summaries = GuardedCall("the summarizer", most=HUNG_SUMMARIES)
        self.storing = GuardedCall("the store")
        self.asking = GuardedCall("a function of the host", most=HUNG_QUESTIONS)
        self.working = threading.Lock()


class CallContext(NamedTuple):
    """The host's objects that belong to one call.

    Attributes:
        signal: Set when the caller gives up.
        send: Sends a view to the model, for `call`.
        summarizer: The summarizer to ask if the services have none; without either, a summary is made by rule.
        on_event: One more event handler, for this call.
    """

    signal: Signal | None = None
    send: Callable[[Any], object] | None = None
    summarizer: Summarizer | None = None
    on_event: EventHandler | None = None


NO_CONTEXT = CallContext()


class Driver:
    """Runs the flows of one conversation.

    The same coroutine answers the effects of sync and async callers; for a sync caller it blocks the thread and awaits nothing.

    Args:
        lock: Held while a flow runs, never while an effect is answered.
    """

    def __init__(self, services: Services, lock: threading.RLock) -> None:
        self._services = services
        self._lock = lock
        self._summaries = GuardedCall("the summarizer", within=services.summaries)
        self._own_handler = GuardedCall("an event handler")
        self._tasks = dict[RunningCompaction, asyncio.Task[None]]()
        self._asking = GuardedCall("a function of the host", within=services.asking, most=HUNG_QUESTIONS_EACH)

    async def run(self, flow: Flow[T], context: CallContext = NO_CONTEXT) -> T:
        """Run a flow to its end, and await the async functions of the host.

        When the caller is cancelled, the flow is closed and the summarizer is cancelled.
        """
        answer: object = None

        try:
            while True:
                with self._lock:
                    effect = flow.send(answer)
                answer = await self._answer(effect, context, is_sync=False)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            with self._lock:
                flow.close()

    def run_sync(self, flow: Flow[T], context: CallContext = NO_CONTEXT) -> T:
        """Run a flow to its end in this thread; async functions of the host run in the helper loop."""
        answer: object = None

        try:
            while True:
                with self._lock:
                    effect = flow.send(answer)
                answer = run_to_completion(self._answer(effect, context, is_sync=True))
        except StopIteration as end:
            result: T = end.value
            return result
        except RuntimeError as error:
            # PEP 479: a generator cannot raise the `StopIteration` of the host's `send`; Python wraps it.
            raised = answer.error if isinstance(answer, Failure) else None
            if isinstance(raised, StopIteration) and error.__cause__ is raised:
                raise raised from None
            raise
        finally:
            with self._lock:
                flow.close()

    @property
    def can_store_here(self) -> bool:
        """Whether a sync caller may use the store in this thread; not an async one if a loop runs here: it belongs to that loop."""
        store = self._services.store
        return store is not None and not (is_async(store.append) and _loop_is_running_here())

    async def _answer(self, effect: Effect, context: CallContext, *, is_sync: bool) -> object:
        match effect:
            case Now():
                return self._services.clock()
            case IsAborted():
                return context.signal is not None and context.signal.is_set()
            case AskSummarizer(request=request, seconds=seconds):
                summarize, signal = self._choose_summarizer(context), context.signal
                return await self._summaries.call(summarize, request, seconds=seconds, signal=signal, is_sync=is_sync)
            case AskHost(function=function, request=request, seconds=seconds, running=running):
                before = _ASKING.set((*_ASKING.get(), running))
                try:
                    return await self._asking.call(function, request, seconds=seconds, is_sync=is_sync)
                finally:
                    _ASKING.reset(before)
            case Wait(running=running):
                return await self._wait(running, context.signal, is_sync)
            case Begin(flow=flow, running=running):
                return self._begin(flow, running, is_sync=is_sync)
            case Emit(event=event):
                for handler, guard in self._handlers(context):
                    answer = await guard.call(handler, event, seconds=HANDLER_TIMEOUT_SECONDS, is_sync=is_sync)
                    self._report_failure(guard, answer, event.session_id)
                return None
            case Send(view=view):
                return await _send(context.send, view, is_sync)
            case Work(function=function):
                return function() if is_sync else await _work_in_thread(partial(self._work_alone, function))
            case AskStore(method=method, arguments=arguments):
                ask: Callable[..., object] = getattr(self._services.store, method)
                seconds = LISTING_TIMEOUT_SECONDS if method == "session_ids" else STORE_TIMEOUT_SECONDS
                answer = await self._services.storing.call(ask, *arguments, seconds=seconds, is_sync=is_sync)
                return answer if method in ("append", "remove") else _read_texts(answer)

    def _begin(self, flow: Flow[None], running: RunningCompaction, *, is_sync: bool) -> bool:
        """Run a flow beside the caller's; the end of the caller's event loop, or of the process, ends it."""
        if self._services.summarizer is None:
            return False

        def end(_: object = None) -> None:
            self._tasks.pop(running, None)
            running.done.set_result("settled")

        def run() -> None:
            try:
                self.run_sync(flow)
            finally:
                end()

        running.is_in_thread = is_sync
        try:
            if is_sync:
                threading.Thread(target=Context().run, args=(run,), name="compaction-background", daemon=True).start()
            else:
                task = asyncio.get_running_loop().create_task(self.run(flow), context=Context())
                self._tasks[running] = task  # a loop holds its tasks weakly
                task.add_done_callback(end)  # also of one that was cancelled before its first step
        except RuntimeError:  # the system has no thread left, or the interpreter ends
            end()
        return True

    def _work_alone(self, function: Callable[[], object]) -> object:
        with self._services.working:
            return function()

    async def _wait(self, running: RunningCompaction, signal: Signal | None, is_sync: bool) -> Outcome:
        """Wait for another caller's compaction; not in a thread in which a loop runs: that loop may be the one that compacts."""
        most_seconds = WAIT_SUMMARIES * self._services.summary_timeout_seconds + STORE_TIMEOUT_SECONDS
        if running in _ASKING.get():
            return "asking"
        task = self._tasks.get(running)
        is_stopped = task is not None and not task.get_loop().is_running()
        never_ends = not running.done.done() and (running.pid != os.getpid() or is_stopped)
        if never_ends or (is_sync and _loop_is_running_here() and not running.is_in_thread):
            return "failed"
        done = running.done if is_sync else _in_loop(running.done)
        try:
            is_aborted = await until_done(done, min(most_seconds, threading.TIMEOUT_MAX), signal, is_sync)
        finally:
            done.cancel()

        if running.done.done():
            return running.done.result()
        if is_aborted:
            return "aborted"
        # The loop that runs it was stopped: it never ends, so no call waits for it again.
        logger.warning(
            "session %s: a compaction by another caller does not end: going on without it", running.session_id
        )
        running.pid = None
        return "failed"

    def _choose_summarizer(self, context: CallContext) -> Summarizer:
        given = self._services.summarizer or context.summarizer
        if given is not None:
            return given

        return ExtractiveSummarizer()

    def _handlers(self, context: CallContext) -> Iterator[tuple[EventHandler, GuardedCall]]:
        """Yield the handlers to call; not one that timed out, for a while and until it returns."""
        now = self._services.seconds()
        for handler, guard in (*self._services.handlers, (context.on_event, self._own_handler)):
            if handler is not None and not guard.is_hanging and guard.paused_until <= now:
                yield handler, guard

    def _report_failure(self, guard: GuardedCall, answer: object, session_id: str) -> None:
        """Log the failure of a handler; pause a handler that timed out."""
        if isinstance(answer, Failure):
            logger.warning("session %s: an event handler failed (%s)", session_id, describe_error(answer.error))
            if isinstance(answer.error, TimeoutError):
                guard.paused_until = self._services.seconds() + HANDLER_COOLDOWN_SECONDS


async def _work_in_thread(function: Callable[[], object]) -> object:
    """Return the result of a function that runs outside the event loop; raise its error."""
    answer = await _in_loop(in_thread(function))
    if isinstance(answer, Failure):
        raise answer.error
    return answer.value


def _in_loop(future: Future[T]) -> asyncio.Future[T]:
    return asyncio.wrap_future(future)


async def _send(send: Callable[[Any], object] | None, view: object, is_sync: bool) -> Success | Failure:
    assert send is not None  # only `call` sends, and it always has a `send`

    try:
        response = send(view)
        if not is_sync:
            return Success(await guard_stream(await response if inspect.isawaitable(response) else response))

        if inspect.iscoroutine(response):
            response.close()
            raise ConfigurationError(
                "send gave a coroutine to call_sync: write `await call(messages, send)`, "
                "or, if an adapter wraps the function, an `async def` around it"
            )
        return Success(guard_stream_sync(response))
    except Exception as error:  # noqa: BLE001 - the flow decides how to recover
        return Failure(error)


def _loop_is_running_here() -> bool:
    loaded = sys.modules.get("asyncio")
    return loaded is not None and loaded._get_running_loop() is not None


def _read_texts(answer: object) -> Success | Failure:
    """Return a store's answer with its texts read: a lazy sequence may fail only when it is iterated."""
    if not isinstance(answer, Success):
        return cast("Failure", answer)  # a store is called without a signal

    entries = answer.value
    try:
        if isinstance(entries, Sequence) and not isinstance(entries, str | bytes):
            return Success(tuple(cast("Sequence[object]", entries)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a failing helper never fails the agent
        return Failure(error)

    return Failure(RecordError(f"the store gave {type(entries).__name__} instead of records"))
