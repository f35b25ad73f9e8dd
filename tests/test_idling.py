"""Conversations nobody has asked about for a while keep their records only."""

from __future__ import annotations

import gc
import threading
import weakref
from datetime import UTC, datetime

import pytest

from compaction_hooks import CompactionSettings, ContextOverflowError, SummaryRequest
from compaction_hooks.messages import Usage
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.session.idling import IDLE_SECONDS
from tests.conversations import Chat, Controller, Scripted, controller, prose, steps, system, texts, user


class Held(dict[str, object]):
    """A chat message that can be weakly referenced."""


class Clock:
    """A clock that goes on when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> Instant:
        return Instant(datetime(2026, 1, 1, tzinfo=UTC), self.seconds)


def long() -> list[Chat]:
    return [system(), user("Port the parser."), *steps(22, 300)]


def opened() -> tuple[Controller, Clock]:
    clock = Clock()
    return controller(8_192, summarizer=Scripted(), clock=clock), clock


def fall_asleep(hooks: Controller, clock: Clock) -> None:
    """Let the time pass, and have the controller look at its conversations."""
    hooks.session("somebody else")
    clock.seconds += IDLE_SECONDS
    for _ in range(4):
        hooks.session("somebody else")


@pytest.mark.parametrize("count", [3, 22])
def test_an_idle_conversation_lets_go_of_the_hosts_messages(count: int) -> None:
    """Whether or not it was ever compacted."""
    hooks, clock = opened()
    messages: list[Chat] = [Held(message) for message in long()[: 2 * count + 2]]
    kept = [weakref.ref(message) for message in messages if isinstance(message, Held)]
    for _ in range(2):
        hooks.session("idle").transform_context_sync([*messages])
    messages.clear()
    gc.collect()
    assert all(message() is not None for message in kept)
    fall_asleep(hooks, clock)
    gc.collect()
    assert not any(message() is not None for message in kept)


def test_an_idle_conversation_goes_on_where_it_stopped() -> None:
    hooks, clock = opened()
    messages = long()
    session = hooks.session("idle")
    view = session.transform_context_sync(messages)
    state = session.state()
    fall_asleep(hooks, clock)
    assert session.state() == state
    assert [record.id for record in session.history()] == [str(record["id"]) for record in session.export_records()]
    assert session.transform_context_sync(messages) == view


def test_a_compaction_can_be_undone_while_the_conversation_is_idle() -> None:
    hooks, clock = opened()
    messages = long()
    session = hooks.session("idle")
    assert session.transform_context_sync(messages) is not messages
    (record,) = session.history()
    fall_asleep(hooks, clock)
    undone = session.undo()
    assert undone is not None
    assert undone.id == record.id
    assert session.history() == []
    assert session.undo() is None


def test_an_answer_that_comes_after_all_is_still_counted() -> None:
    hooks, clock = opened()
    session = hooks.session("idle")
    session.transform_context_sync([user("go")])
    fall_asleep(hooks, clock)
    session.report_usage(Usage(input_tokens=700))
    assert session.state().context_tokens == 700
    assert session.transform_context_sync([user("go")]) == [user("go")]


def test_what_was_counted_is_known_of_an_idle_conversation() -> None:
    hooks, clock = opened()
    session = hooks.session("idle")
    view = session.transform_context_sync([user("go")])
    session.report_usage(Usage(input_tokens=700), view)
    state = session.state()
    assert (state.context_tokens, state.is_estimate) == (700, False)
    fall_asleep(hooks, clock)
    assert session.engine.conversation.history is None
    assert session.state() == state


def test_a_conversation_whose_only_call_failed_lets_go_as_well() -> None:
    hooks, clock = opened()
    message = Held(user(prose(9_000)))
    kept = weakref.ref(message)
    session = hooks.session("idle")
    with pytest.raises(ContextOverflowError):
        session.compact_sync([message])
    del message
    assert kept() is not None
    fall_asleep(hooks, clock)
    gc.collect()
    assert kept() is None
    assert session.transform_context_sync([user("go")]) == [user("go")]


@pytest.mark.parametrize("grows", [True, False])
def test_a_conversation_in_use_stays_awake(grows: bool) -> None:
    """Whether or not it is looked up again, a caller may hold on to its session; and whether or not anything new was said."""
    hooks, clock = opened()
    session, messages = hooks.session("busy"), [system(), user("go")]
    for number in range(6):
        clock.seconds += IDLE_SECONDS / 2
        hooks.session("somebody else")
        assert number == 0 or session.engine.conversation.history is not None
        if grows:
            messages = [*messages, user("and?")]
        assert session.transform_context_sync(messages) is messages


def test_a_conversation_falls_asleep_when_it_was_idle_for_so_long() -> None:
    """Since it was first seen to be; a clock that is set back begins anew."""
    hooks, clock = opened()
    session, messages = hooks.session("idle"), [system(), user("go")]

    def is_awake_at(seconds: float) -> bool:
        clock.seconds = seconds
        for _ in range(2):
            hooks.session("somebody else")
        return session.engine.conversation.history is not None

    clock.seconds = 1_000
    session.transform_context_sync(messages)
    assert is_awake_at(1_000)
    assert is_awake_at(999 + IDLE_SECONDS)
    assert is_awake_at(500)
    assert is_awake_at(499 + IDLE_SECONDS)
    assert not is_awake_at(500 + IDLE_SECONDS)


def test_nobody_waits_for_a_conversation_that_is_in_use() -> None:
    """Another thread is just reading its list."""
    hooks, clock = opened()
    session = hooks.session("in use")
    session.transform_context_sync([system(), user("go")])
    hooks.session("somebody else")
    is_used, has_looked = threading.Event(), threading.Event()

    def use() -> None:
        with session.engine.conversation.lock:
            is_used.set()
            waited.append(has_looked.wait(10))

    waited: list[bool] = []
    thread = threading.Thread(target=use)
    thread.start()
    is_used.wait()
    fall_asleep(hooks, clock)
    has_looked.set()
    thread.join()
    assert waited == [True]
    assert session.engine.conversation.history is not None


def test_a_conversation_that_is_being_summarised_stays_awake() -> None:
    """Its list is not let go of before the call that reads it has ended."""
    clock = Clock()
    asked: list[SummaryRequest] = []

    def slow(request: SummaryRequest) -> str:
        asked.append(request)
        fall_asleep(hooks, clock)
        assert hooks.session("slow").engine.conversation.history is not None
        return "- so far"

    settings = CompactionSettings(clear_tool_results=False)
    hooks = controller(8_192, summarizer=slow, settings=settings, clock=clock)
    assert "- so far" in texts(hooks.session("slow").transform_context_sync(long()))
    assert len(asked) == 1
