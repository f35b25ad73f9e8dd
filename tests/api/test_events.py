"""`on_event`, and the events: each is printed on a line with the id of its session, without text of the conversation.

`CompactionStarted`, `CompactionFinished`, `CompactionFailed`, `CompactionSkipped`, `PinMissing`, `StoreFailed`, `HostCallFailed`.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionEvent,
    CompactionFailed,
    CompactionFinished,
    CompactionReason,
    CompactionSettings,
    CompactionSkipped,
    CompactionStarted,
    PinMissing,
    StoreFailed,
    SummaryRequest,
)
from compaction_hooks.errors import RecordError
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.stores import MemoryStore
from tests.conversations import PLAIN, Scripted, above_threshold, controller, prose, steps, talk, user

MESSAGES = [user("go"), *steps(30, 300)]


SECRET = "xyzzy"
THRESHOLD = CompactionReason.THRESHOLD


def events_of(messages: list[Any], window: int = 8_192) -> list[CompactionEvent]:
    """Return all events of one call, with a summarizer that quotes the conversation too."""
    heard: list[CompactionEvent] = []
    summarizer = Scripted(f"## Goal\n- {SECRET}")
    hooks = CompactionController(context_window=window, summarizer=summarizer, settings=PLAIN, on_event=heard.append)
    hooks.session("thread-1").transform_context_sync(messages)
    return heard


def test_each_decision_is_a_debug_line_without_text_of_the_conversation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "compaction_hooks"):
        hooks = controller(8_192, summarizer=Scripted())
        hooks.transform_context_sync([user(SECRET), *steps(2, 300)])
        hooks.transform_context_sync([user(SECRET), *steps(30, 300)])
    lines = "\n".join(record.getMessage() for record in caplog.records)
    for part in ("not due", "above 6,144 tokens", "places with at most", "may be sent"):
        assert part in lines, lines
    assert SECRET not in lines


def test_the_line_of_an_event_is_the_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "compaction_hooks"):
        started, finished = events_of([user(SECRET), *steps(30)])
    assert isinstance(started, CompactionStarted)
    assert isinstance(finished, CompactionFinished)
    tokens = f"{finished.tokens_before:,} to {finished.tokens_after:,} tokens"
    assert str(finished) == f"thread-1: compacted (threshold), {tokens} in {finished.duration_seconds:.1f} s"
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.INFO] == [str(finished)]


def test_a_list_that_does_not_fit_is_logged_with_the_figures_of_its_event(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "compaction_hooks"):
        failed = events_of([user(prose(9_000))])[-1]
    assert isinstance(failed, CompactionFailed)
    line = f"thread-1: compaction failed (threshold), {failed.tokens:,} tokens do not fit the context window: "
    assert str(failed).startswith(line)
    assert [record.getMessage() for record in caplog.records] == [str(failed)]


def test_no_event_shows_text_of_the_conversation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "compaction_hooks"):
        heard = [*events_of([user(SECRET), *steps(30)]), *events_of([user(SECRET + prose(9_000))])]
    assert {type(event) for event in heard} == {CompactionStarted, CompactionFinished, CompactionFailed}
    assert SECRET not in caplog.text
    assert not [event for event in heard if SECRET in str(event) + repr(event) + f"{event}"]
    assert any(SECRET in event.record.summary for event in heard if isinstance(event, CompactionFinished))


@pytest.mark.parametrize("id", ["thread-1", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "user\n42", "x" * 500])
def test_the_line_of_an_event_has_the_whole_id(id: str) -> None:
    finished = next(event for event in events_of([user("go"), *steps(30)]) if isinstance(event, CompactionFinished))
    large: list[CompactionEvent] = [
        CompactionStarted(
            session_id=id,
            reason=CompactionReason.OVERFLOW,
            tokens_before=1_048_576,
            messages_before=12_345,
            trigger_tokens=1_000_000,
            context_window=1_048_576,
        ),
        CompactionFinished(
            session_id=id,
            reason=THRESHOLD,
            tokens_before=1_048_576,
            tokens_after=123_456,
            messages_before=1_234,
            messages_after=56,
            compacted_messages=1_178,
            summary_messages=1,
            duration_seconds=12.5,
            usage=None,
            used_fallback=False,
            record=finished.record,
        ),
        CompactionSkipped(session_id=id, reason=THRESHOLD, why="nothing to summarize", tokens=1_048_576),
        PinMissing(session_id=id, count=3),
    ]
    for event in large:
        assert "\n" not in str(event)
        assert str(event).startswith(f"{' '.join(id.split())}: ")


def test_each_warning_names_the_conversation_by_its_whole_id(caplog: pytest.LogCaptureFixture) -> None:
    id = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"

    def fail(event: CompactionEvent) -> None:
        raise OSError(type(event).__name__)

    def summarize(request: SummaryRequest) -> str:
        if request.prompt and request.kind == kind:
            raise OSError("no network")
        return "- the first part"

    in_parts = CompactionSettings(summarizer_window=4_096, max_summary_tokens=500)
    for kind in ("history", "update"):
        with caplog.at_level(logging.WARNING, "compaction_hooks"):
            hooks = CompactionController(context_window=8_192, summarizer=summarize, settings=in_parts, on_event=fail)
            hooks.session(id).transform_context_sync([user(kind), *steps(40, 300)])
    lines = caplog.messages
    assert [line for line in lines if id not in line] == []
    assert [sum(text in line for line in lines) for text in ("summarizer failed (", "handler")] == [2, 4]


def test_a_stores_failure_is_a_line_with_its_error() -> None:
    event = StoreFailed(session_id="thread-1", action="save", error="OSError: disk full")
    assert str(event) == "thread-1: the store failed to save records: OSError: disk full"
    event = StoreFailed(session_id="thread-1", action="read", error="RecordError: not JSON")
    assert str(event) == "thread-1: a record was skipped: RecordError: not JSON"


def test_a_session_and_a_controller_are_written_in_short() -> None:
    hooks = CompactionController(model="gpt-5", context_window=8_192, summarizer=Scripted())
    session = hooks.session("thread-1")
    assert repr(session) == "CompactionSession('thread-1', no call yet)"
    session.transform_context_sync([user(SECRET), *steps(30)])
    tokens = session.state().context_tokens
    assert repr(session) == f"CompactionSession('thread-1', {tokens:,} of 8,192 tokens, 1 compaction)"
    assert repr(hooks) == "CompactionController('gpt-5', 1 session)"


def test_a_result_and_its_record_are_written_in_short() -> None:
    result = CompactionController(context_window=8_192, summarizer=Scripted()).compact_sync([user(SECRET), *steps(30)])
    assert result.record is not None
    size = f"{result.tokens_before:,} to {result.tokens_after:,} tokens"
    assert repr(result) == f"CompactionResult('compacted', {size} in {len(result.messages)} messages)"
    covered = result.record.compacted_message_count
    assert (
        repr(result.record) == f"CompactionRecord('{result.record.id}', 'manual', {size}, {covered} messages covered)"
    )
    assert repr(CompactionController()) == "CompactionController(0 sessions)"


@pytest.mark.parametrize(
    "poison",
    [
        {"reason": SECRET * 200_000},
        {"version": 10**4_000},
        {"reductions": [{"kind": SECRET * 200_000}]},
        {"reductions": [{"kind": "result", "digest": "a", "shown_digest": "b", "run": [SECRET] * 100_000}]},
        {"pins": SECRET * 200_000},
    ],
    ids=lambda poison: ", ".join(poison),
)
def test_a_poisoned_record_is_named_in_a_short_text(poison: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """A poisoned record may hold any text of any size: its content is not repeated."""
    heard: list[CompactionEvent] = []
    hooks = CompactionController(context_window=8_192, summarizer=Scripted(), on_event=heard.append)
    session = hooks.session("thread-1")
    session.transform_context_sync([user("go"), *steps(30)])
    (record,) = session.export_records()
    damaged = {**record, "id": "another", **poison}
    assert session.import_records([damaged]) == 0
    assert isinstance(heard[-1], StoreFailed)
    assert len(str(heard[-1])) + len(repr(heard[-1])) + len(caplog.records[-1].getMessage()) < 1_500
    with pytest.raises(RecordError) as raised:
        type(session.history()[0]).from_json(json.dumps(damaged))
    assert len(str(raised.value)) < 500


def test_the_event_tells_of_the_record_that_is_used_if_another_worker_was_first() -> None:
    store, heard, messages = MemoryStore(), list[CompactionEvent](), [user("go"), *talk(30)]
    later = Instant(datetime(2100, 1, 1, tzinfo=UTC), 0.0)
    other = CompactionController(context_window=8_192, summarizer=Scripted(), store=store, clock=lambda: later)

    def summarize_slowly(request: SummaryRequest) -> str:
        other.transform_context_sync(messages)
        return prose(300)

    hooks = CompactionController(context_window=8_192, summarizer=summarize_slowly, store=store, on_event=heard.append)
    hooks.transform_context_sync(messages)
    (used,), finished = other.history(), heard[-1]
    assert hooks.history() == [used]
    assert isinstance(finished, CompactionFinished)
    assert (finished.record, finished.tokens_after) == (used, used.tokens_after)


def test_events_have_sizes_counts_and_duration() -> None:
    events: list[CompactionEvent] = []
    messages = above_threshold()
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


async def test_a_call_s_event_handler_hears_of_that_call_alone() -> None:
    always: list[CompactionEvent] = []
    once: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted(), events=always)
    await hooks.transform_context(MESSAGES, on_event=once.append)
    await hooks.session("another").transform_context(MESSAGES)
    finished = [[event for event in heard if isinstance(event, CompactionFinished)] for heard in (always, once)]
    assert [len(events) for events in finished] == [2, 1]
    assert finished[1][0].session_id == "default"
