"""Answer a flow's effects, for async callers and for sync ones. Nothing here decides anything.

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

from compaction_hooks.errors import ConfigurationError, RecordError, described
from compaction_hooks.runtime.effects import (
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
    Send,
    Summarize,
    Wait,
    Work,
    Write,
)
from compaction_hooks.runtime.guards import Signal
from compaction_hooks.runtime.streams import guarded, guarded_sync
from compaction_hooks.runtime.timebox import Timebox, finished, in_thread, is_async, until_done

if TYPE_CHECKING:  # needed only when something is due
    import asyncio
    from concurrent.futures import Future

    from compaction_hooks.events import EventHandler
    from compaction_hooks.stores import RecordStore
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

    Args:
        summarizer: Asked in every call; None leaves it to each caller.

    Attributes:
        working: Held by the one thread that computes for async callers: several would starve their event loops.
        summaries, storing: What calls the summarisers and the store: what hangs, hangs for all.
        handlers: Each with what calls it.
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
        self.handlers = [(handler, Timebox("an event handler")) for handler in handlers]
        self.clock = clock
        # A thread cannot wait for longer than that, "for ever" is no number of seconds to it.
        self.summary_timeout_seconds = min(summary_timeout_seconds, threading.TIMEOUT_MAX)
        self.summaries = Timebox("the summariser", most=HUNG_SUMMARIES)
        self.storing = Timebox("the store")
        self.working = threading.Lock()


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

    The effects of a sync caller are answered by the same coroutine as those of an async one; it waits in the caller's thread then.

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
                answer = await self._answer(effect, caller, is_sync=False)
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
                answer = finished(self._answer(effect, caller, is_sync=True))
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

    async def _answer(self, effect: Effect, caller: Caller, *, is_sync: bool) -> object:
        match effect:
            case Now():
                return self._world.clock()
            case IsAborted():
                return caller.signal is not None and caller.signal.is_set()
            case Summarize(request=request, seconds=seconds):
                summarize, signal = self._summarizer(caller), caller.signal
                return await self._summaries.call(summarize, request, seconds=seconds, signal=signal, is_sync=is_sync)
            case Wait(flight=flight):
                return await self._wait(flight, caller.signal, is_sync)
            case Emit(event=event):
                for handler, box in self._handlers(caller):
                    told = await box.call(handler, event, seconds=HANDLER_TIMEOUT_SECONDS, is_sync=is_sync)
                    self._note(box, told)
                return None
            case Send(view=view):
                return await _sent(caller.send, view, is_sync)
            case Work(function=function):
                return function() if is_sync else await self._work(function)
            case Load(session_id=session_id):
                return _listed(await self._ask_store("load", (session_id,), is_sync))
            case Write(session_id=session_id, record_id=record_id, text=None):
                return await self._ask_store("remove", (session_id, record_id), is_sync)
            case Write(session_id=session_id, record_id=record_id, text=text):
                return await self._ask_store("append", (session_id, record_id, text), is_sync)

    async def _ask_store(self, method: str, arguments: Sequence[object], is_sync: bool) -> object:
        asked: Callable[..., object] = getattr(self._world.store, method)
        return await self._world.storing.call(asked, *arguments, seconds=STORE_TIMEOUT_SECONDS, is_sync=is_sync)

    async def _work(self, function: Callable[[], object]) -> object:
        def work() -> object:
            with self._world.working:
                return function()

        answer = await _in_loop(in_thread(work))
        if isinstance(answer, Failure):
            raise answer.error
        return answer.value

    async def _wait(self, flight: Flight, signal: Signal | None, is_sync: bool) -> FlightEnd:
        """Wait for another's compaction; not in a thread in which a loop runs: that may be the one that leads the flight."""
        most_seconds = WAIT_SUMMARIES * self._world.summary_timeout_seconds + STORE_TIMEOUT_SECONDS
        if self._is_lost(flight) or (is_sync and _loop_is_running_here()):
            return "failed"
        landed = flight.done if is_sync else _in_loop(flight.done)
        try:
            is_aborted = await until_done(landed, min(most_seconds, threading.TIMEOUT_MAX), signal, is_sync)
        finally:
            landed.cancel()
        if flight.done.done():
            return flight.done.result()
        return "aborted" if is_aborted else self._give_up(flight)

    def _is_lost(self, flight: Flight) -> bool:
        """Whether nobody leads a flight here: it was given up before, or its leader stayed behind in another process."""
        return not flight.done.done() and (flight is self._given_up or flight.pid != os.getpid())

    def _give_up(self, flight: Flight) -> FlightEnd:
        """Wait no longer for a flight: the loop that leads it may have been stopped, and then it never ends."""
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
        own = [(caller.on_event, self._telling)] if caller.on_event is not None else []
        told = [*self._world.handlers, *own]
        return ((f, box) for f, box in told if not box.is_stuck and box.rests_until <= now)

    def _note(self, box: Timebox, answer: object) -> None:
        """Report a handler that failed; leave one that did not answer in time alone for a while."""
        if not isinstance(answer, Failure):
            return
        logger.warning("an event handler failed (%s)", described(answer.error))
        if isinstance(answer.error, TimeoutError):
            box.rests_until = self._world.clock().monotonic + HANDLER_REST_SECONDS


def _in_loop(future: Future[T]) -> asyncio.Future[T]:
    import asyncio

    return asyncio.wrap_future(future)


async def _sent(send: Callable[[Any], object] | None, view: object, is_sync: bool) -> Answered | Failure:
    assert send is not None  # only `call` sends, and it always has a `send`
    try:
        response = send(view)
        if not is_sync:
            return Answered(await guarded(await response if inspect.isawaitable(response) else response))
        if inspect.iscoroutine(response):
            response.close()
            raise ConfigurationError("send gave a coroutine to call_sync: write `await call(messages, send)`")
        return Answered(guarded_sync(response))
    except Exception as error:  # noqa: BLE001 - the flow decides what is to be done about it
        return Failure(error)


def _loop_is_running_here() -> bool:
    loaded = sys.modules.get("asyncio")
    return loaded is not None and loaded._get_running_loop() is not None


def _listed(answer: object) -> Answered | Failure:
    """A store's answer with its records read: one that gives them lazily may fail only when they are looked at."""
    if not isinstance(answer, Answered):
        return cast("Failure", answer)  # a store is called without a signal
    entries = answer.value
    try:
        if isinstance(entries, Sequence) and not isinstance(entries, str | bytes):
            return Answered(tuple(cast("Sequence[object]", entries)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a failing helper never fails the agent
        return Failure(error)
    return Failure(RecordError(f"the store gave {type(entries).__name__} instead of records"))
