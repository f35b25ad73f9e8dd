"""`background=True`: summaries that are written while the conversation goes on; `aclose`, `close_sync`."""

import asyncio
import gc
import logging
import threading
import time
import warnings
from contextvars import ContextVar
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from compaction_hooks import (
    Advice,
    Carried,
    CompactionController,
    CompactionFinished,
    CompactionOutcome,
    CompactionSettings,
    CompactionStarted,
    ContextPressure,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.stores import MemoryStore
from tests.conversations import Clock, Waiting, assistant, steps, user

TEXT = "## Goal\n- go on"
COST = Usage(input_tokens=900, output_tokens=40)
SETTINGS = CompactionSettings(trigger_tokens=20_000, clear_tool_results=False)
SECONDS = 10.0
"""Between two calls: a summary takes three calls, until one is timed."""
MOST_CALLS, MOST_MESSAGES = 120, 400


class Run:
    """A conversation that grows by one step with each call.

    Args:
        answers: Those of the summarizer, which waits until it is let.
        tokens: The size of a step's result.
    """

    def __init__(self, *answers: str | Summary | Exception, tokens: int = 300, **keywords: Any) -> None:
        self.clock = Clock()
        self.summarizer = Waiting(*(answers or (Summary(text=TEXT, usage=COST),)))
        self.events: list[Any] = []
        defaults = {"settings": SETTINGS, "context_window": 60_000, "summarizer": self.summarizer, "background": True}
        self.controller: Any = CompactionController(
            **{**defaults, "on_event": self._note, "clock": self.clock, **keywords}
        )
        self.session = self.controller.session("run")
        self.messages: list[Any] = [user("Fix the parser.")]
        self.view: list[Any] = []
        self._steps, self._tokens = count(), tokens

    def _note(self, event: object) -> None:
        if not isinstance(event, ContextPressure):
            self.events.append(event)

    async def call(self) -> None:
        self.messages += steps(1, self._tokens, first=next(self._steps))
        self.clock.seconds += SECONDS
        self.view = await self.session.transform_context(self.messages)
        await asyncio.sleep(0)

    async def until_asked(self) -> None:
        """Make calls until a summary is asked for."""
        while not self.summarizer.started.is_set():
            assert len(self.messages) < MOST_MESSAGES
            await self.call()
            running = self.session.engine.conversation.background.running
            if running is not None:
                asked: asyncio.Future[Any] = asyncio.ensure_future(self.summarizer.started.wait())
                ended: asyncio.Future[Any] = asyncio.wrap_future(running.done)
                await asyncio.wait([asked, ended], return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()

    async def finish(self) -> None:
        """Let the summarizer answer, and the summary be made of it."""
        self.summarizer.release.set()
        while (running := self.session.engine.conversation.background.running) is not None:
            await asyncio.wrap_future(running.done)

    async def until_compacted(self) -> None:
        while not self.finished:
            assert len(self.messages) < MOST_MESSAGES
            await self.call()

    @property
    def finished(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    @property
    def spent(self) -> int:
        return self.session.state().summary_usage.input_tokens


@pytest.fixture
async def run() -> Run:
    return Run()


async def test_no_call_waits_and_the_threshold_takes_what_is_ready(run: Run) -> None:
    await run.until_asked()
    assert not run.events  # nothing is told of it before it is taken
    await run.call()
    assert run.view is run.messages
    await run.finish()
    await run.call()
    assert run.view is run.messages
    await run.until_compacted()
    assert len(run.summarizer.requests) == 1
    (event,) = run.finished
    assert (event.reason, event.usage, run.spent) == ("threshold", COST, COST.input_tokens)
    assert TEXT in run.view[0]["content"]
    assert run.view[-1] is run.messages[-1]
    assert event.tokens_after <= SETTINGS.budget(60_000).target


async def test_a_call_above_the_threshold_waits_for_the_one_under_way(run: Run) -> None:
    await run.until_asked()
    waiting = asyncio.create_task(run.until_compacted())
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not waiting.done()
    run.summarizer.release.set()
    await waiting
    assert len(run.summarizer.requests) == 1
    assert len(run.finished) == 1


async def test_each_further_summary_updates_the_last_one_in_the_background_too(run: Run) -> None:
    run.summarizer.release.set()
    for _ in range(MOST_CALLS):
        await run.call()
        await run.finish()
    assert len(run.finished) == len(run.summarizer.requests) > 2
    assert {request.kind for request in run.summarizer.requests[1:]} == {"update"}
    assert [event.record.compaction_count for event in run.finished] == [*range(1, len(run.finished) + 1)]
    assert [event.record.parent for event in run.finished[1:]] == [event.record.id for event in run.finished[:-1]]


async def edit(run: Run) -> None:
    run.messages[2] = assistant("I changed my mind.")
    run.messages[1] = user("Leave the parser.")


async def compact(run: Run) -> None:
    run.summarizer.release.set()
    assert (await run.session.compact(run.messages)).outcome is CompactionOutcome.COMPACTED


async def pin(run: Run) -> None:
    run.session.pin(run.messages[1])


@pytest.mark.parametrize("change", [edit, compact, pin])
async def test_what_is_no_longer_true_is_paid_for_and_not_taken(run: Run, change: Any) -> None:
    await run.until_asked()
    await change(run)
    await run.finish()
    run.events.clear()
    await run.until_compacted()
    assert len(run.summarizer.requests) > 1
    assert run.spent == COST.input_tokens * len(run.summarizer.requests)


async def test_an_undo_discards_the_update_of_the_undone_summary(run: Run) -> None:
    run.summarizer.release.set()
    await run.until_asked()
    await run.finish()
    await run.until_compacted()
    run.summarizer.release.clear()
    run.summarizer.started.clear()
    await run.until_asked()
    assert run.session.undo() is not None
    await run.finish()
    run.events.clear()
    await run.until_compacted()
    (event,) = run.finished
    assert event.record.compaction_count == 1
    assert event.record.previous_summary is None


async def test_it_is_begun_as_many_calls_ahead_as_the_last_one_took() -> None:
    """At first as for 30 seconds, and not before half of what stays is there; then it took no time."""
    run, begun = Run(), list[int]()
    run.summarizer.release.set()
    for _ in range(2):
        run.events.clear()
        run.summarizer.started.clear()
        await run.until_asked()
        begun.append(run.session.state().context_tokens or 0)
        await run.finish()
        await run.until_compacted()
    assert 16_500 < begun[0] < 18_500 < begun[1]


async def test_reductions_and_pins_of_later_messages_stay(run: Run) -> None:
    await run.until_asked()
    await run.finish()
    pinned = run.messages[-1]
    run.session.pin(pinned)
    await run.until_compacted()
    assert len(run.summarizer.requests) == 1
    assert any(message is pinned for message in run.view)


async def test_a_pin_of_a_result_that_it_shows_smaller_keeps_that_whole() -> None:
    """The draft was written before the pin: it is asked for anew."""
    run = Run(settings=CompactionSettings(trigger_tokens=20_000))
    run.summarizer.release.set()
    await run.until_asked()
    await run.finish()
    conversation: Any = run.session.engine.conversation  # no event tells what a draft shows smaller
    record, history = conversation.background._draft.record, conversation.history
    smaller = max(item.run for item in record.reductions)
    pinned = run.messages[history.piece(history.run_pieces(smaller)[0]).host]
    run.session.pin(pinned)
    await run.until_compacted()
    assert any(message is pinned for message in run.view)


async def test_a_view_that_is_still_above_the_threshold_is_summarized_anew() -> None:
    """In a large window the limit is far above it."""
    settings = CompactionSettings(trigger_cap_tokens=40_000, clear_tool_results=False)
    run = Run(context_window=1_000_000, settings=settings, tokens=900)
    run.summarizer.release.set()
    while not run.session.engine.conversation.background.running:
        await run.call()
        if len(run.messages) % 8 == 1:
            run.messages.append(user("Go on."))
    await run.finish()
    run.messages += steps(40, 900, first=500)
    await run.call()
    assert run.finished[-1].tokens_after <= 40_000


async def test_an_event_tells_why_it_was_made_by_rule() -> None:
    run = Run(Summary(text="", fallback_reason="budget used up"))
    await run.until_asked()
    await run.finish()
    await run.until_compacted()
    assert run.finished[0].fallback_reason == "budget used up"


async def test_the_host_may_change_its_list_while_the_summary_is_written(run: Run) -> None:
    await run.until_asked()
    run.messages = [*run.messages]
    await run.call()
    del run.messages[-2:]
    await run.finish()
    await run.until_compacted()
    assert len(run.summarizer.requests) == 1


async def test_a_failure_counts_once_and_the_next_call_asks_as_without_it() -> None:
    run = Run(RuntimeError("down"), Summary(text=TEXT, usage=COST), settings=SETTINGS)
    run.summarizer.release.set()
    await run.until_asked()
    await run.finish()
    assert run.session.engine.conversation.cooldown.breaker.failures == 1
    await run.call()
    assert len(run.summarizer.requests) == 1  # none is begun twice under one summary
    await run.until_compacted()
    assert len(run.summarizer.requests) == 2


async def test_without_a_summarizer_of_the_controller_calls_wait_and_one_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run(summarizer=None)
    while not run.finished:
        await run.call()
    assert [r.message for r in caplog.records if "background=True" in r.message] == [
        "session run: background=True waits for summaries nevertheless: only the summarizer= of the controller outlives a call"
    ]


async def test_nothing_is_begun_where_no_summary_will_be_needed() -> None:
    run = Run(tokens=3_000, context_window=100_000, settings=CompactionSettings(trigger_tokens=60_000))
    while not run.finished:
        await run.call()
    assert not run.summarizer.started.is_set()  # clearing results was enough


async def test_the_host_is_asked_once_and_its_veto_spares_the_summary() -> None:
    asked: list[str] = []

    def carry(_: object) -> list[Carried]:
        asked.append("carry")
        return [Carried("skill", "Sing.")]

    def before_compact(_: object) -> None:
        asked.append("before_compact")

    run = Run(carry=carry, before_compact=before_compact)
    await run.until_asked()
    await run.finish()
    await run.until_compacted()
    assert asked == ["before_compact", "carry"]
    assert "Sing." in run.view[0]["content"]

    vetoing = Run(before_compact=lambda _: Advice(veto="not now"))
    for _ in range(50):
        await vetoing.call()
    assert not vetoing.summarizer.started.is_set()


async def test_the_summarizer_has_nothing_of_the_call_that_began_it() -> None:
    mark = ContextVar("mark", default="")
    seen: list[str] = []

    async def summarize(request: SummaryRequest) -> str:
        seen.append(mark.get())
        return TEXT

    run = Run(summarizer=summarize)
    mark.set("the call")
    while not run.finished:
        await run.call()
        await run.finish()
    assert seen == [""]


async def test_close_waits_for_the_one_under_way_and_stores_it() -> None:
    store = MemoryStore()
    run = Run(store=store)
    await run.until_asked()
    closing = asyncio.create_task(run.controller.aclose())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not closing.done()
    run.summarizer.release.set()
    await closing
    assert len(store.load("run")) == 1
    assert len(run.finished) == 1

    other = Run(store=store)
    other.messages = run.messages
    await other.call()
    assert TEXT in other.view[0]["content"]
    assert not other.summarizer.requests


async def test_close_without_a_store_waits_for_nothing(run: Run) -> None:
    await run.until_asked()
    await run.session.aclose()
    await run.finish()
    run.events.clear()
    await run.until_compacted()
    assert len(run.summarizer.requests) == 2


@pytest.mark.parametrize("end", ["forget", "close"])
async def test_what_was_forgotten_or_closed_is_never_written(end: str) -> None:
    store = MemoryStore()
    run = Run(store=store)
    await run.until_asked()
    if end == "forget":
        await run.controller.forget("run")
    else:
        run.controller.close("run")
    await run.finish()
    await run.controller.aclose()
    await run.session.aclose()
    assert not [text for text in store.load("run") if TEXT in text]
    assert not run.finished


async def test_two_workers_may_each_pay_once_and_take_the_one_that_was_stored_first() -> None:
    store = MemoryStore()
    workers = Run(store=store), Run(store=store)
    for _ in range(MOST_CALLS):
        for worker in workers:
            worker.summarizer.release.set()
            await worker.call()
            await worker.finish()
            if not worker.view[0]["content"].startswith("Fix"):
                break
        if any(worker.finished for worker in workers):
            break
    first, second = workers
    assert [len(worker.finished) for worker in workers] == [1, 0]
    await second.call()
    assert second.view[0] == first.view[0]
    assert not second.finished
    assert max(len(worker.summarizer.requests) for worker in workers) == 1


# -- sync callers and ends of loops


class SyncRun(Run):
    def call_now(self) -> None:
        self.messages += steps(1, self._tokens, first=next(self._steps))
        self.clock.seconds += SECONDS
        self.view = self.session.transform_context_sync(self.messages)


def test_a_sync_caller_does_not_wait_either_and_close_sync_stores() -> None:
    started, release = threading.Event(), threading.Event()

    def summarize(request: SummaryRequest) -> str:
        started.set()
        assert release.wait(20)
        return TEXT

    store = MemoryStore()
    run = SyncRun(summarizer=summarize, store=store)
    while not run.session.engine.conversation.background.running:
        run.call_now()
    assert started.wait(20)
    run.call_now()
    assert run.view is run.messages
    release.set()
    run.controller.close_sync()
    assert len(run.finished) == 1
    run.call_now()
    assert TEXT in run.view[0]["content"]


async def test_a_call_does_not_wait_for_one_that_a_compaction_by_hand_has_overtaken() -> None:
    asked: list[asyncio.Event] = []

    async def summarize(_: SummaryRequest) -> str:
        asked.append(asyncio.Event())
        if len(asked) == 1:
            await asked[0].wait()
        return TEXT

    run = Run(summarizer=summarize)
    while not asked:
        await run.call()
        await asyncio.sleep(0.001)
    await run.session.compact(run.messages)
    run.events.clear()
    while not run.finished:
        assert len(asked) == 2  # none is begun beside the first
        await asyncio.wait_for(run.call(), 20)
    asked[0].set()
    await run.finish()


async def test_a_close_leaves_the_view_that_was_sent_for_the_next_count() -> None:
    run = Run(store=MemoryStore())
    await run.until_asked()
    run.summarizer.release.set()
    before = run.session.state().context_tokens or 0
    await run.session.aclose()
    assert run.finished
    run.session.report_usage(Usage(input_tokens=before))  # of the call that was under way
    await run.call()
    assert (run.session.state().context_tokens or before) < before * 0.8


def test_a_loop_that_stands_still_is_not_waited_for() -> None:
    run = Run(store=MemoryStore(), settings=replace(SETTINGS, summary_timeout_seconds=20.0))
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(run.until_asked())
        began = time.monotonic()
        run.controller.close_sync()
        assert time.monotonic() - began < 10
        assert not run.finished
        run.summarizer.release.set()
        loop.run_until_complete(run.finish())
        loop.run_until_complete(run.controller.aclose())
        assert run.finished
    finally:
        loop.close()


def test_a_system_without_threads_fails_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        if thread.name == "compaction-background":
            raise RuntimeError("can't start new thread")
        start(thread)

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", refuse)
    run = SyncRun(summarizer=lambda _: TEXT)
    while not run.finished:
        run.call_now()


async def test_a_sync_call_in_a_running_loop_waits_for_a_thread_too() -> None:
    asked: list[SummaryRequest] = []
    release = threading.Event()

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        threading.Timer(0.1, release.set).start()
        assert release.wait(20)
        return TEXT

    run = SyncRun(summarizer=summarize)
    while not run.finished:
        run.call_now()
    assert len(asked) == 1


def test_the_end_of_the_event_loop_ends_it_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    runs: list[Run] = []

    async def first() -> None:
        runs.append(Run())
        await runs[0].until_asked()

    async def second() -> None:
        runs[0].summarizer.release = asyncio.Event()
        runs[0].summarizer.release.set()
        await asyncio.wait_for(runs[0].until_compacted(), 20)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(first())
        gc.collect()
        asyncio.run(second())
    assert runs[0].finished
    assert not caplog.records


async def test_a_cancelled_call_leaves_the_one_under_way(run: Run) -> None:
    await run.until_asked()
    run.messages += steps(12, first=500)
    waiting = asyncio.create_task(run.session.transform_context(run.messages))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await run.finish()
    await run.until_compacted()
    assert len(run.summarizer.requests) == 1


async def raise_exit(_: SummaryRequest) -> str:
    raise SystemExit(1)


async def hang(_: SummaryRequest) -> str:
    await asyncio.Event().wait()
    return TEXT


async def answer_nothing(_: SummaryRequest) -> str:
    return ""


async def cancel(_: SummaryRequest) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("summarizer", [raise_exit, hang, answer_nothing, cancel])
async def test_a_summarizer_that_fails_fails_no_call_and_counts_once(summarizer: Any) -> None:
    settings = replace(SETTINGS, summary_timeout_seconds=0.05)
    run = Run(summarizer=summarizer, settings=settings)
    for _ in range(60):
        await run.call()
        await run.finish()
        if (run.session.state().context_tokens or 0) > 20_000:
            break
        assert run.session.engine.conversation.cooldown.breaker.failures <= 1
    assert run.view is run.messages  # the call above the threshold asked itself, and failed too
    assert run.session.engine.conversation.cooldown.breaker.failures == 2


async def test_an_aborted_call_goes_on_without_the_one_under_way(run: Run) -> None:
    await run.until_asked()
    signal = threading.Event()
    run.messages += steps(12, first=500)
    waiting = asyncio.create_task(run.session.transform_context(run.messages, signal))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    signal.set()
    assert await waiting is run.messages
    await run.finish()
    await run.until_compacted()
    assert len(run.summarizer.requests) == 1


def test_a_summary_in_the_background_starts_and_ends_as_one_event_each() -> None:
    async def go() -> Run:
        run = Run()
        await run.until_asked()
        await run.finish()
        await run.until_compacted()
        return run

    run = asyncio.run(go())
    assert [*map(type, run.events)] == [CompactionStarted, CompactionFinished]
