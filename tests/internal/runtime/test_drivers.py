"""What a caller brings or waits for is broken in a way of its own: the call comes to its end all the same."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from compaction_hooks import CompactionSettings, SummaryRequest
from compaction_hooks.runtime import drivers
from compaction_hooks.runtime.effects import Flow, Outcome, RunningCompaction, Wait
from tests.cases import crossed
from tests.faults.harness import SIDES, Chat, Rig, Side, above_threshold, fallback_settings, over_window, rig, works

BOTH = pytest.mark.parametrize("side", SIDES)


# -- another caller's compaction


@pytest.fixture
def patient(short_timeouts: float) -> CompactionSettings:
    """Settings with which another's compaction is waited for a moment only."""
    return fallback_settings(summary_timeout_seconds=short_timeouts)


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(drivers, "STORE_TIMEOUT_SECONDS", 0.05)
    return 0.05


def begin_and_stop(driven: Rig, messages: list[Chat]) -> Callable[[], None]:
    """Begin a compaction in a loop that is stopped while the model works; return what lets go of it."""
    loop = asyncio.new_event_loop()
    leader = loop.create_task(driven.session.transform_context(messages))

    async def until_it_leads() -> None:
        while driven.session.engine.conversation.running is None:  # noqa: ASYNC110 - nothing tells when it begins
            await asyncio.sleep(0)

    loop.run_until_complete(until_it_leads())

    def let_go() -> None:
        leader.cancel()
        loop.run_until_complete(asyncio.gather(leader, return_exceptions=True))
        loop.close()

    return let_go


@crossed(path=["transform", "recover", "compact"], side=SIDES)
def test_a_compaction_whose_loop_was_stopped_is_given_up(path: str, side: Side, patient: CompactionSettings) -> None:
    async def summarize(request: SummaryRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    driven = rig(side, summarizer=summarize, settings=patient)
    messages = over_window()
    let_go = begin_and_stop(driven, messages)
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(getattr(driven, path)(messages)), daemon=True)
    try:
        thread.start()
        thread.join(10)
        assert ended, "the call hangs"
    finally:
        let_go()


def wait_for(driven: Rig, running: RunningCompaction) -> Outcome:
    """How the wait of another caller of the same conversation ends."""
    driver = driven.session.engine.driver

    def flow() -> Flow[Outcome]:
        end: Outcome = yield Wait(running)
        return end

    return driven.run(lambda: driver.run(flow()), lambda: driver.run_sync(flow()))


@BOTH
def test_a_compaction_that_was_given_up_is_not_waited_for_again(
    side: Side, patient: CompactionSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driven = rig(side, settings=patient)
    running = RunningCompaction("thread-1")
    assert wait_for(driven, running) == "failed"
    assert "session thread-1: a compaction by another caller does not end: going on without it" in caplog.messages
    monkeypatch.setattr(drivers, "STORE_TIMEOUT_SECONDS", 3_600)
    assert wait_for(driven, running) == "failed"


@BOTH
def test_a_compaction_of_another_process_is_not_waited_for(side: Side) -> None:
    """After `os.fork` the child has the running, and not the thread that leads it."""
    driven = rig(side)
    running = RunningCompaction("thread-1")
    running.pid = os.getpid() + 1
    assert wait_for(driven, running) == "failed"


# -- time without an end


@BOTH
@pytest.mark.parametrize("seconds", [float("inf"), 1e10, 10**400], ids=["for ever", "centuries", "beyond all floats"])
def test_a_summarizer_may_be_given_all_the_time_there_is(seconds: float, side: Side) -> None:
    def summarize(request: SummaryRequest) -> str:
        threading.Event().wait(0.02)  # it is waited for
        return works(request)

    driven = rig(side, summarizer=summarize, settings=fallback_settings(summary_timeout_seconds=seconds))
    messages = above_threshold()
    assert driven.transform(messages) is not messages
    assert not driven.failures


# -- what is raised


def test_stop_iteration_of_the_hosts_own_call_reaches_it() -> None:
    error = StopIteration("mine")

    def send(view: object) -> object:
        raise error

    with pytest.raises(StopIteration) as raised:
        rig("sync").call([], send)
    assert raised.value is error


def test_an_error_that_stop_iteration_caused_in_the_host_stays_itself() -> None:
    def answers() -> Iterator[str]:
        yield next(iter(()))

    def send(view: object) -> object:
        return next(answers())

    with pytest.raises(RuntimeError, match="generator raised StopIteration") as raised:
        rig("sync").call([], send)
    assert isinstance(raised.value.__cause__, StopIteration)
