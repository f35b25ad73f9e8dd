"""Pins, undo, records that travel, stores, many conversations."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

import compaction_hooks.session.controller
from compaction_hooks import CompactionFinished, CompactionSettings
from compaction_hooks.events import CompactionEvent
from compaction_hooks.files import FileOperations
from tests.conversations import (
    Scripted,
    assistant,
    call,
    controller,
    prose,
    step,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)
from tests.stores.later import LaterStore

Chat = Mapping[str, object]


def long(first: int = 0) -> list[Chat]:
    return [system(), *talk(15, first=first)]


# -- pins


def test_a_pinned_message_stays_in_every_view_from_then_on() -> None:
    rule = user("Never touch the public API.")
    hooks = controller(8_192, summarizer=Scripted())
    hooks.pin(rule)
    messages: list[Chat] = [rule, assistant("understood")]
    for n in range(40):
        messages = [*messages, *talk(1, first=n)]
        view = hooks.transform_context_sync(messages)
        assert any(message is rule for message in view)
    assert hooks.state().compaction_count >= 2


def test_pinning_a_system_message_shows_it_once() -> None:
    """It stays anyway; what the user says in the same words does not."""
    rule, said = system("Never touch the public API."), user("Never touch the public API.")
    hooks = controller(8_192, summarizer=Scripted())
    messages = [rule, said, assistant("understood"), *talk(15)]
    hooks.pin(rule)
    view = hooks.transform_context_sync(messages)
    assert [message for message in view if message["role"] == "system"] == [rule]
    assert said not in view


def test_a_pinned_tool_result_keeps_its_call() -> None:
    result = tool("plan", "the plan: first parse, then port")
    hooks = controller(8_192, summarizer=Scripted())
    hooks.pin(result)
    messages = [user("go"), assistant(None, call("plan", "make_plan")), result, *talk(15)]
    view = hooks.transform_context_sync(messages)
    place = next(place for place, message in enumerate(view) if message is result)
    assert view[place - 1] is messages[1]


def test_the_request_that_was_current_is_summarised_once_another_is() -> None:
    """Pins of the current request stay until the next compaction summarises them."""
    hooks = controller(8_192, summarizer=Scripted())
    old, new = user("the old request"), user("the new request")
    messages: list[Chat] = [old, *steps(20, 400)]
    assert any(message is old for message in hooks.compact_sync(messages, keep_recent_tokens=500).messages)
    messages = [*messages, assistant("done"), new, *steps(20, 400, first=20)]
    view = hooks.compact_sync(messages, keep_recent_tokens=500).messages
    assert any(message is new for message in view)
    assert not any(message is old for message in view)


def test_pins_survive_in_a_stored_list() -> None:
    """A trimmed list that begins with summary and pins is compacted again: the request is still there."""
    request = user("the only request")
    hooks = controller(8_192, summarizer=Scripted())
    stored = hooks.compact_sync([request, *steps(20, 400)], keep_recent_tokens=500).messages
    again = hooks.compact_sync([*stored, *steps(20, 400, first=20)], keep_recent_tokens=500).messages
    assert again[1] is request
    assert len([message for message in again if message == request]) == 1


# -- undo and rewinds


def test_undo_gives_back_the_view_of_before_and_rests() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages = long()
    assert hooks.transform_context_sync(messages) is not messages
    undone = hooks.undo()
    assert undone is not None
    assert undone.compaction_count == 1
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.undo() is None


def test_after_an_undo_it_compacts_again_once_the_context_has_grown() -> None:
    hooks = controller(16_384, summarizer=Scripted())
    messages = [system(), *talk(30)]
    hooks.transform_context_sync(messages)
    hooks.undo()
    views = []
    for n in range(30, 40):
        messages = [*messages, *talk(1, first=n)]
        views.append(hooks.transform_context_sync(messages) is messages)
    assert views[0] is True
    assert views[-1] is False


def test_undo_goes_back_one_record() -> None:
    """Records form a chain."""
    hooks = controller(8_192, summarizer=Scripted("- one", "- two"))
    messages = talk(15)
    hooks.compact_sync(messages, keep_recent_tokens=500)
    messages = [*messages, *talk(15, first=15)]
    hooks.compact_sync(messages, keep_recent_tokens=500)
    hooks.undo()
    assert [record.summary for record in hooks.history()] == ["- one"]


# -- records that travel


def test_a_record_that_arrives_late_is_found_in_a_list_that_was_read_already() -> None:
    stored = controller(8_192, summarizer=Scripted()).session("a")
    result = stored.compact_sync(long())
    other = controller(8_192)
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 0
    other.session("default").import_records(stored.export_records())
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 1


def test_a_damaged_record_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    hooks = controller(8_192)
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        assert hooks.session("default").import_records([{"version": 99}, {}]) == 0
    assert len(caplog.records) == 2
    assert hooks.transform_context_sync(talk(2))


# -- stores


class Broken:
    """A store that is down."""

    def load(self, session_id: str) -> Sequence[str]:
        raise OSError("no such host")

    def append(self, session_id: str, record_id: str, record: str) -> None:
        raise OSError("disk full")

    def remove(self, session_id: str, record_id: str) -> None:
        raise OSError("disk full")


async def test_an_async_store_serves_async_and_sync_callers() -> None:
    store = LaterStore()
    messages = long()
    await controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context(messages)
    assert "- kept" in texts(await controller(8_192, store=store).transform_context(messages))
    assert len(await store.load("default")) == 1


def test_an_async_store_serves_sync_programs() -> None:
    store = LaterStore()
    messages = long()
    controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context_sync(messages)
    assert "- kept" in texts(controller(8_192, store=store).transform_context_sync(messages))


# -- many conversations


def test_a_session_is_the_same_each_time_it_is_asked_for() -> None:
    hooks = controller(8_192)
    assert hooks.session("a") is hooks.session("a")
    assert hooks.session("a") is not hooks.session("b")


def test_the_least_recently_used_session_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_hooks.session.controller, "MAX_SESSIONS", 2)
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").transform_context_sync(long())
    hooks.session("b")
    hooks.session("c")
    assert hooks.session("a").export_records() == []


def test_a_session_that_is_still_held_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_hooks.session.controller, "MAX_SESSIONS", 1)
    hooks = controller(8_192)
    held = hooks.session("a")
    hooks.session("b")
    assert hooks.session("a") is held


def test_close_frees_a_conversation() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").compact_sync(long())
    hooks.close("a")
    assert hooks.session("a").export_records() == []


# -- events


def test_events_tell_what_happened_and_what_it_cost() -> None:
    events: list[CompactionEvent] = []
    messages = long()
    view = controller(8_192, summarizer=Scripted(), events=events).transform_context_sync(messages)
    started, finished = events
    assert type(started).__name__ == "CompactionStarted"
    assert isinstance(finished, CompactionFinished)
    assert (finished.messages_before, finished.messages_after) == (len(messages), len(view))
    assert finished.tokens_after < finished.tokens_before
    assert finished.summary_messages == 1
    assert finished.compacted_messages > 0
    assert finished.reason == "threshold"
    assert finished.duration_seconds >= 0


def test_no_log_line_holds_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    secret = "the secret word is xyzzy"
    messages = [user(secret), *talk(20)]
    with caplog.at_level(logging.DEBUG, "compaction_hooks"):
        controller(8_192, summarizer=Scripted(ConnectionError("down"))).transform_context_sync(messages)
        controller(8_192).transform_context_sync(messages)
    assert caplog.records
    assert "xyzzy" not in caplog.text


def test_steps_added_one_by_one_are_compacted_like_a_whole() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages: list[Chat] = [system(), user("go")]
    for n in range(60):
        messages = [*messages, *step(n, 200)]
        view = hooks.transform_context_sync(messages)
        assert view[-1] is messages[-1]


# -- found by adversaries


def test_a_pinned_result_is_neither_cleared_nor_shortened() -> None:
    """User pins stay for good, word for word."""
    messages = [system(), user("go"), *steps(24, 500)]
    hooks = controller(16_384)
    hooks.pin(messages[3])
    assert any(message is messages[3] for message in hooks.transform_context_sync(messages))
    huge = tool("z", prose(7_000))
    again = controller(8_192)
    again.pin(huge)
    view = again.transform_context_sync([user("go"), assistant("r", call("z")), huge])
    assert any(message is huge for message in view)


def test_pinning_a_late_result_keeps_its_call_and_no_more() -> None:
    late = tool("late", "finished")
    caller = assistant("started", call("late", "background"))
    messages = [user("go"), caller, *steps(3, 100), late, *steps(20, 300, first=3)]
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(clear_tool_results=False))
    hooks.pin(late)
    view = hooks.transform_context_sync(messages)
    assert any(message is late for message in view)
    assert any(message is caller for message in view)
    assert len(view) < len(messages) / 2


def test_undo_of_a_stored_list_keeps_its_summary() -> None:
    """The summary at the head is then one nobody has a record of: it is updated, not lost."""
    asked = Scripted("- ALPHA", "- both")
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    stored = hooks.compact_sync([system(), user("start"), *steps(16, 350)]).messages
    hooks.transform_context_sync(stored)
    hooks.undo()
    hooks.transform_context_sync([*stored, *steps(24, 350, first=40)])
    assert "- ALPHA" in str(asked.requests[-1].previous_summary)


@pytest.mark.parametrize("given", [None, 5, [None], [1, 2], b"x", "text"])
def test_nonsense_from_a_store_costs_a_warning(given: object, caplog: pytest.LogCaptureFixture) -> None:

    class Odd(Broken):
        def load(self, session_id: str) -> Sequence[str]:
            return given  # type: ignore[return-value]  # wrong on purpose

    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        messages = talk(2)
        assert controller(8_192, store=Odd()).transform_context_sync(messages) is messages
    assert caplog.records


@pytest.mark.parametrize("garbage", ["text", None, 7, [1]])
def test_garbage_among_imported_records_is_skipped(garbage: object) -> None:
    assert controller().session("x").import_records([garbage]) == 0  # type: ignore[list-item]  # wrong on purpose


def test_a_file_tracker_that_fails_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:

    def broken() -> FileOperations:
        raise OSError("no such project")

    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        result = controller(8_192, summarizer=Scripted(), host_files=broken).compact_sync(long())
    assert result.record is not None
    assert any("file list" in record.message for record in caplog.records)


def test_a_pin_is_of_this_message_where_several_say_the_same() -> None:
    results = [tool(f"c{n}", "ok") for n in range(8)]
    messages: list[Chat] = [user("go")]
    for n, result in enumerate(results):
        messages += [assistant(prose(300), call(f"c{n}", "run", n=n)), result]
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(clear_tool_results=False))
    hooks.transform_context_sync(messages)
    hooks.pin(results[2])
    view = hooks.compact_sync([*messages, *talk(15)], keep_recent_tokens=500).messages
    assert [message for message in view if any(message is result for result in results)] == [results[2]]
