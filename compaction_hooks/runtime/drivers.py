"""Answer a flow's effects: one driver for async callers, one for sync ones. Nothing here decides anything.

Summariser, store and event handlers are called by a `Timebox`: whatever they raise comes back to the flow as a `Failure`, and so
does their silence. asyncio is imported where it is first needed, so that a sync program never loads it.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from compaction_hooks.errors import ConfigurationError, described
from compaction_hooks.events import EventHandler
from compaction_hooks.runtime.effects import (
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
    Work,
)
from compaction_hooks.runtime.guards import Signal
from compaction_hooks.runtime.streams import guarded, guarded_sync
from compaction_hooks.runtime.timebox import POLL_SECONDS, Timebox, in_thread, is_async, until_set
from compaction_hooks.stores import RecordStore

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.summary.summarizers import Summarizer

T = TypeVar("T")

logger = logging.getLogger("compaction_hooks")

STORE_TIMEOUT_SECONDS = 10.0
"""A store that takes longer is gone on without: the record stays in memory."""
HANDLER_TIMEOUT_SECONDS = 5.0
"""An event handler that takes longer is left behind: an agent must not wait for its telemetry."""
HANDLER_REST_SECONDS = 60.0
"""So long it hears of nothing then: each event would cost the agent its time-out."""
WAIT_SUMMARIES = 2
"""Another's compaction is waited for as long as so many summaries may take: a second one, if the history changed meanwhile."""
HUNG_SUMMARIES = 8
"""So many hung sync summarisers are left behind by all conversations of a controller together; each leaves one at most."""


class World:
    """What the effects are answered with.

    Attributes:
        summarizer: Asked in every call; None leaves it to each caller.
        working: Held by the one thread that computes for async callers: several would starve their event loops.
        summaries, storing, telling: What calls the summarisers, the store and each handler: what hangs, hangs for all.
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
        self.handlers = handlers
        self.clock = clock
        # A thread cannot wait for longer than that, "for ever" is no number of seconds to it.
        self.summary_timeout_seconds = min(summary_timeout_seconds, threading.TIMEOUT_MAX)
        self.summaries = Timebox("the summariser", most=HUNG_SUMMARIES)
        self.storing = Timebox("the store")
        self.working = threading.Lock()
        self.telling = tuple(Timebox("an event handler") for _ in handlers)


class Caller(NamedTuple):
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
        self._summaries = Timebox("the summariser", within=world.summaries)
        self._telling = Timebox("an event handler")
        self._given_up: Flight | None = None

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
        except RuntimeError as error:
            # PEP 479: a generator cannot raise the `StopIteration` of the host's own `send`.
            raised = answer.error if isinstance(answer, Failure) else None
            if isinstance(raised, StopIteration) and error.__cause__ is raised:
                raise raised from None
            raise
        finally:
            with self._lock:
                flow.close()

    @property
    def can_store_here(self) -> bool:
        """Whether a sync caller in this thread may use the store: an async one belongs to the loop that runs here, if one does."""
        store = self._world.store
        return store is not None and not (is_async(store.append) and _loop_is_running_here())

    # -- async

    async def _answer(self, effect: Effect, caller: Caller) -> object:
        match effect:
            case Now():
                return self._world.clock()
            case IsAborted():
                return caller.signal is not None and caller.signal.is_set()
            case Summarize(request=request, seconds=seconds):
                return await self._summaries.call(
                    self._summarizer(caller), request, seconds=seconds, signal=caller.signal
                )
            case Wait(flight=flight):
                return await self._wait(flight, caller.signal)
            case Emit(event=event):
                for handler, box in self._handlers(caller):
                    self._note(box, await box.call(handler, event, seconds=HANDLER_TIMEOUT_SECONDS))
                return None
            case Send(view=view):
                return await _sent(caller.send, view)
            case Work(function=function):
                return await self._work(function)
            case Load() | Save() | Remove():
                method, *arguments = _store_call(self._world.store, effect)
                return _plain(await self._world.storing.call(method, *arguments, seconds=STORE_TIMEOUT_SECONDS))

    async def _work(self, function: Callable[[], object]) -> object:
        import asyncio

        def work() -> object:
            with self._world.working:
                return function()

        answer = await asyncio.wrap_future(in_thread(work))
        if isinstance(answer, Failure):
            raise answer.error
        return answer.value

    async def _wait(self, flight: Flight, signal: Signal | None) -> FlightEnd:
        import asyncio

        if self._is_lost(flight):
            return "failed"
        landed: asyncio.Future[FlightEnd] = asyncio.wrap_future(flight.done)
        watch = asyncio.ensure_future(until_set(signal))
        try:
            await asyncio.wait((landed, watch), timeout=self._most_seconds(), return_when=asyncio.FIRST_COMPLETED)
            if landed.done():
                return landed.result()
            return "aborted" if watch.done() else self._give_up(flight)
        finally:
            landed.cancel()
            watch.cancel()

    # -- sync

    def _answer_sync(self, effect: Effect, caller: Caller) -> object:
        match effect:
            case Now():
                return self._world.clock()
            case IsAborted():
                return caller.signal is not None and caller.signal.is_set()
            case Summarize(request=request, seconds=seconds):
                return self._summaries.call_sync(
                    self._summarizer(caller), request, seconds=seconds, signal=caller.signal
                )
            case Wait(flight=flight):
                return self._wait_sync(flight, caller.signal)
            case Emit(event=event):
                for handler, box in self._handlers(caller):
                    self._note(box, box.call_sync(handler, event, seconds=HANDLER_TIMEOUT_SECONDS))
                return None
            case Send(view=view):
                return _sent_sync(caller.send, view)
            case Work(function=function):
                return function()
            case Load() | Save() | Remove():
                method, *arguments = _store_call(self._world.store, effect)
                return _plain(self._world.storing.call_sync(method, *arguments, seconds=STORE_TIMEOUT_SECONDS))

    def _wait_sync(self, flight: Flight, signal: Signal | None) -> FlightEnd:
        """Wait in this thread, unless a loop runs in it: that loop may be the one that leads the flight."""
        if _loop_is_running_here() or self._is_lost(flight):
            return "failed"
        left = self._most_seconds()
        while left > 0:
            step = left if signal is None else min(left, POLL_SECONDS)
            try:
                return flight.done.result(timeout=step)
            except TimeoutError:
                left -= step
            if signal is not None and signal.is_set():
                return "aborted"
        return self._give_up(flight)

    # -- both

    def _is_lost(self, flight: Flight) -> bool:
        """Whether nobody leads a flight here: it was given up before, or its leader stayed behind in another process."""
        return not flight.done.done() and (flight is self._given_up or flight.pid != os.getpid())

    def _most_seconds(self) -> float:
        """How long another's compaction is waited for: its loop may have been stopped, and then it never ends."""
        seconds = WAIT_SUMMARIES * self._world.summary_timeout_seconds + STORE_TIMEOUT_SECONDS
        return min(seconds, threading.TIMEOUT_MAX)

    def _give_up(self, flight: Flight) -> FlightEnd:
        logger.warning("a compaction by another caller does not come to its end: going on without")
        self._given_up = flight
        return "failed"

    def _summarizer(self, caller: Caller) -> Summarizer:
        named = self._world.summarizer or caller.summarizer
        if named is not None:
            return named
        from compaction_hooks.summary.extractive import ExtractiveSummarizer  # a tenth of the package

        return ExtractiveSummarizer()

    def _handlers(self, caller: Caller) -> Iterator[tuple[EventHandler, Timebox]]:
        """The handlers to tell; one that did not answer in time hears of nothing for a while, and until it returns."""
        now = self._world.clock().monotonic
        told = [*zip(self._world.handlers, self._world.telling, strict=True)]
        if caller.on_event is not None:
            told.append((caller.on_event, self._telling))
        return ((f, box) for f, box in told if not box.is_stuck and box.rests_until <= now)

    def _note(self, box: Timebox, answer: object) -> None:
        """Report a handler that failed; leave one that did not answer in time alone for a while."""
        if not isinstance(answer, Failure):
            return
        logger.warning("an event handler failed (%s)", described(answer.error))
        if isinstance(answer.error, TimeoutError):
            box.rests_until = self._world.clock().monotonic + HANDLER_REST_SECONDS


async def _sent(send: Callable[[Any], object] | None, view: object) -> Answered | Failure:
    assert send is not None  # only `call` sends, and it always has a `send`
    try:
        response = send(view)
        return Answered(await guarded(await response if inspect.isawaitable(response) else response))
    except Exception as error:  # noqa: BLE001 - the flow decides what is to be done about it
        return Failure(error)


def _sent_sync(send: Callable[[Any], object] | None, view: object) -> Answered | Failure:
    assert send is not None  # only `call_sync` sends, and it always has a `send`
    try:
        response = send(view)
        if inspect.iscoroutine(response):
            response.close()
            raise ConfigurationError("send gave a coroutine to call_sync: write `await call(messages, send)`")
        return Answered(guarded_sync(response))
    except Exception as error:  # noqa: BLE001 - the flow decides what is to be done about it
        return Failure(error)


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


def _plain(answer: Answered | Failure | Aborted) -> Answered | Failure:
    """A store's answer with its records read: one that gives them lazily may fail only when they are looked at."""
    assert not isinstance(answer, Aborted)  # a store is called without a signal
    value: object = None if isinstance(answer, Failure) else answer.value
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return answer
    try:
        return Answered(tuple(cast("Sequence[object]", value)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a failing helper never fails the agent
        return Failure(error)
