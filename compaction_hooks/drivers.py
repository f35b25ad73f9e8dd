"""Answer a flow's effects: one driver for async callers, one for sync ones. Nothing here decides anything.

Whatever helpers raise (summariser, store, event handlers) comes back to the flow as a `Failure`; it never leaves a driver.
asyncio is imported where it is first needed, so that a sync program never loads it.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from compaction_hooks.effects import (
    Aborted,
    Answered,
    Effect,
    Emit,
    Failure,
    Flight,
    FlightEnd,
    Flow,
    Instant,
    IsAborted,
    Load,
    Now,
    Remove,
    Save,
    Send,
    Summarize,
    Wait,
)
from compaction_hooks.events import CompactionEvent, EventHandler
from compaction_hooks.extractive import ExtractiveSummarizer
from compaction_hooks.stores import RecordStore
from compaction_hooks.streams import guarded, guarded_sync
from compaction_hooks.summarizers import Summarizer, SummaryRequest

T = TypeVar("T")

logger = logging.getLogger("compaction_hooks")

STORE_TIMEOUT_SECONDS = 10.0
"""A store that takes longer is gone on without: the record stays in memory."""
HANDLER_TIMEOUT_SECONDS = 5.0
"""An async event handler that takes longer is left behind: an agent must not wait for its telemetry."""
POLL_SECONDS = 0.05
"""How often a signal is looked at that cannot be awaited (a `threading.Event`, a flag)."""


class Signal(Protocol):
    """Tells that the caller gave up: `asyncio.Event`, `threading.Event`, or anything else with `is_set`."""

    def is_set(self) -> bool:
        """Whether the caller gave up."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """What the effects are answered with.

    Attributes:
        summarizer: Asked in every call; None leaves it to each caller.
    """

    summarizer: Summarizer | None
    store: RecordStore | None
    handlers: Sequence[EventHandler]
    clock: Callable[[], Instant]
    summary_timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What one caller brings along, beside what its flow knows.

    Attributes:
        signal: Set when the caller gives up.
        send: Sends a view to the model, for `call`.
        summarizer: Asked where the world has none; without either, no model is.
        on_event: One more event handler, for this call.
    """

    signal: Signal | None = None
    send: Callable[[Any], object] | None = None
    summarizer: Summarizer | None = None
    on_event: EventHandler | None = None


NOBODY = Caller()


class Driver:
    """Runs the flows of one conversation.

    Args:
        lock: Held while a flow runs, never while an effect is answered.
    """

    def __init__(self, world: World, lock: threading.RLock) -> None:
        self._world = world
        self._lock = lock
        self._hung: threading.Thread | None = None

    async def run(self, flow: Flow[T], caller: Caller = NOBODY) -> T:
        """Run a flow to its end, awaiting what can be awaited.

        A cancelled caller takes the flow down with it: the summariser is cancelled, nothing is left behind.
        """
        answer: object = None
        try:
            while True:
                with self._lock:
                    effect = flow.send(answer)
                answer = await self._answer(effect, caller)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            with self._lock:
                flow.close()

    def run_sync(self, flow: Flow[T], caller: Caller = NOBODY) -> T:
        """Run a flow to its end in this thread; async helpers run in a thread and a loop of their own."""
        answer: object = None
        try:
            while True:
                with self._lock:
                    effect = flow.send(answer)
                answer = self._answer_sync(effect, caller)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            with self._lock:
                flow.close()

    # -- async

    async def _answer(self, effect: Effect, caller: Caller) -> object:
        match effect:
            case Now():
                return self._world.clock()
            case IsAborted():
                return caller.signal is not None and caller.signal.is_set()
            case Summarize(request=request):
                return await self._summarize(request, caller)
            case Wait(flight=flight):
                return await self._wait(flight, caller.signal)
            case Emit(event=event):
                await self._emit(event, caller)
                return None
            case Send(view=view):
                return await _attempted(_sent(caller.send, view))
            case Load() | Save() | Remove():
                return await self._stored(effect)

    async def _summarize(self, request: SummaryRequest, caller: Caller) -> Answered | Failure | Aborted:
        import asyncio

        request = self._with_deadline(request)
        task = asyncio.ensure_future(self._asked(self._summarizer(caller), request))
        watch = asyncio.ensure_future(_until_set(caller.signal))
        try:
            await asyncio.wait(
                {task, watch}, timeout=self._world.summary_timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if task.cancelled():  # by the summariser itself: nobody here cancelled it yet
                return Failure(RuntimeError("the summariser was cancelled"))
            if task.done():
                return task.result()
            return Aborted() if watch.done() else Failure(self._timed_out())
        finally:
            for pending in (task, watch):
                pending.cancel()

    async def _asked(self, summarizer: Summarizer, request: SummaryRequest) -> Answered | Failure:
        if _is_async(summarizer):
            return await _attempted(_called(summarizer, request))
        import asyncio

        if self._is_hung():
            return Failure(TimeoutError("the summariser still hangs in its last call"))
        thread, future = _in_thread(lambda: summarizer(request))
        try:
            answer = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._hung = thread
            raise
        if isinstance(answer, Answered) and inspect.isawaitable(answer.value):
            return await _attempted(answer.value)
        return answer

    async def _wait(self, flight: Flight, signal: Signal | None) -> FlightEnd:
        import asyncio

        # Shielded, because a cancelled waiter must not cancel what everybody waits for.
        landed: asyncio.Future[FlightEnd] = asyncio.shield(asyncio.wrap_future(flight.done))
        watch = asyncio.ensure_future(_until_set(signal))
        try:
            await asyncio.wait((landed, watch), return_when=asyncio.FIRST_COMPLETED)
            return landed.result() if landed.done() else "aborted"
        finally:
            landed.cancel()
            watch.cancel()

    async def _emit(self, event: CompactionEvent, caller: Caller) -> None:
        import asyncio

        for handler in self._handlers(caller):
            answer = await _attempted(asyncio.wait_for(_called(handler, event), HANDLER_TIMEOUT_SECONDS))
            _report_handler(answer)

    async def _stored(self, effect: Load | Save | Remove) -> Answered | Failure:
        import asyncio

        method, *arguments = _store_call(self._world.store, effect)
        waited = _called(method, *arguments) if _is_async(method) else asyncio.to_thread(method, *arguments)
        answer = await _attempted(asyncio.wait_for(waited, STORE_TIMEOUT_SECONDS))
        if isinstance(answer, Answered) and inspect.isawaitable(answer.value):
            return await _attempted(asyncio.wait_for(answer.value, STORE_TIMEOUT_SECONDS))
        return answer

    # -- sync

    def _answer_sync(self, effect: Effect, caller: Caller) -> object:
        match effect:
            case Now():
                return self._world.clock()
            case IsAborted():
                return caller.signal is not None and caller.signal.is_set()
            case Summarize(request=request):
                return self._summarize_sync(self._with_deadline(request), caller)
            case Wait(flight=flight):
                return self._wait_sync(flight, caller.signal)
            case Emit(event=event):
                for handler in self._handlers(caller):
                    _report_handler(_attempted_sync(handler, event))
                return None
            case Send(view=view):
                return _sent_sync(caller.send, view)
            case Load() | Save() | Remove():
                return _attempted_sync(*_store_call(self._world.store, effect))

    def _summarize_sync(self, request: SummaryRequest, caller: Caller) -> Answered | Failure | Aborted:
        summarizer, signal = self._summarizer(caller), caller.signal
        if self._is_hung():
            return Failure(TimeoutError("the summariser still hangs in its last call"))
        thread, future = _in_thread(lambda: _finished(summarizer(request)))
        left = self._world.summary_timeout_seconds
        while left > 0:
            try:
                return future.result(timeout=min(left, POLL_SECONDS if signal is not None else left))
            except FutureTimeoutError:
                left -= POLL_SECONDS if signal is not None else left
            if signal is not None and signal.is_set():
                self._hung = thread
                return Aborted()
        self._hung = thread
        return Failure(self._timed_out())

    def _wait_sync(self, flight: Flight, signal: Signal | None) -> FlightEnd:
        """Wait in this thread, unless a loop runs in it: that loop may be the one that leads the flight."""
        if _loop_is_running_here():
            return "failed"
        while True:
            try:
                return flight.done.result(timeout=POLL_SECONDS if signal is not None else None)
            except FutureTimeoutError:
                if signal is not None and signal.is_set():
                    return "aborted"

    # -- both

    def _summarizer(self, caller: Caller) -> Summarizer:
        return self._world.summarizer or caller.summarizer or ExtractiveSummarizer()

    def _handlers(self, caller: Caller) -> Sequence[EventHandler]:
        return (*self._world.handlers, caller.on_event) if caller.on_event else self._world.handlers

    def _with_deadline(self, request: SummaryRequest) -> SummaryRequest:
        return replace(request, deadline=self._world.clock().monotonic + self._world.summary_timeout_seconds)

    def _timed_out(self) -> TimeoutError:
        return TimeoutError(f"the summariser did not answer within {self._world.summary_timeout_seconds:g} seconds")

    def _is_hung(self) -> bool:
        return self._hung is not None and self._hung.is_alive()


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__dict__.get("__call__"))


async def _sent(send: Callable[[Any], object] | None, view: object) -> object:
    assert send is not None  # only `call` sends, and it always has a `send`
    return await guarded(await _called(send, view))


def _sent_sync(send: Callable[[Any], object] | None, view: object) -> Answered | Failure:
    assert send is not None  # only `call_sync` sends, and it always has a `send`
    try:
        return Answered(guarded_sync(send(view)))
    except Exception as error:  # noqa: BLE001 - the flow decides what is to be done about it
        return Failure(error)


async def _called(function: Callable[..., object], *arguments: object) -> object:
    result = function(*arguments)
    return await result if inspect.isawaitable(result) else result


async def _attempted(awaitable: Awaitable[object]) -> Answered | Failure:
    try:
        return Answered(await awaitable)
    except Exception as error:  # noqa: BLE001 - rule 5: a failing helper never fails the agent
        return Failure(error)


def _attempted_sync(function: Callable[..., object], *arguments: object) -> Answered | Failure:
    try:
        return Answered(_finished_elsewhere(function(*arguments)))
    except Exception as error:  # noqa: BLE001 - rule 5: a failing helper never fails the agent
        return Failure(error)


def _finished_elsewhere(result: object) -> object:
    """The result; of an awaitable, what it gives in a thread and loop of its own."""
    if not inspect.isawaitable(result):
        return result
    answer = _in_thread(lambda: _finished(result))[1].result(timeout=HANDLER_TIMEOUT_SECONDS)
    if isinstance(answer, Failure):
        raise answer.error
    return answer.value


def _finished(result: object) -> object:
    """The result; of an awaitable, what it gives in a new loop in this thread."""
    if not inspect.isawaitable(result):
        return result
    import asyncio

    return asyncio.run(_itself(result))


async def _itself(awaitable: Awaitable[object]) -> object:
    return await awaitable


def _in_thread(function: Callable[[], object]) -> tuple[threading.Thread, Future[Answered | Failure]]:
    """Run a function in a daemon thread: one that hangs must not keep the program from ending."""
    future: Future[Answered | Failure] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer: Answered | Failure = Answered(context.run(function))
        except BaseException as error:  # noqa: BLE001 - rule 5; what ends a thread silently would be waited for in vain
            answer = Failure(error)
        if not future.cancelled():
            future.set_result(answer)

    thread = threading.Thread(target=work, name="compaction-summarizer", daemon=True)
    thread.start()
    return thread, future


async def _until_set(signal: Signal | None) -> None:
    """Return when the signal is set; never without one."""
    import asyncio

    if signal is None:
        await asyncio.Event().wait()
    elif isinstance(signal, asyncio.Event):
        await signal.wait()
    else:
        while not signal.is_set():  # noqa: ASYNC110 - a foreign signal offers nothing to await
            await asyncio.sleep(POLL_SECONDS)


def _loop_is_running_here() -> bool:
    loaded = sys.modules.get("asyncio")
    return loaded is not None and loaded._get_running_loop() is not None


def _store_call(
    store: RecordStore | None, effect: Load | Save | Remove
) -> tuple[Callable[..., object], *tuple[str, ...]]:
    assert store is not None  # flows ask only when there is one
    match effect:
        case Load(session_id=session_id):
            return store.load, session_id
        case Save(session_id=session_id, record_id=record_id, text=text):
            return store.append, session_id, record_id, text
        case Remove(session_id=session_id, record_id=record_id):
            return store.remove, session_id, record_id


def _report_handler(answer: Answered | Failure) -> None:
    if isinstance(answer, Failure):
        logger.warning("an event handler failed (%s)", type(answer.error).__name__)
