"""`session.preview(messages)` and `compact(messages, preview=...)`: a compaction is seen before it is made."""

import json
from dataclasses import replace

import pytest

from compaction_hooks import CompactionOutcome, CompactionSettings, ConfigurationError
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.stores import MemoryStore
from compaction_hooks.strategies import Summarize
from tests.conversations import Numbered, Scripted, above_threshold, controller, steps, system, talk, user

MESSAGES = [system(), user("Port the parser."), *steps(12), *talk(3)]


def test_a_preview_shows_the_record_and_the_view_and_changes_nothing() -> None:
    events: list[CompactionEvent] = []
    store = MemoryStore()
    session = controller(200_000, summarizer=Numbered(), events=events, store=store).session("thread")
    before = json.dumps(MESSAGES)
    preview = session.preview_sync(MESSAGES, keep_recent_tokens=600)
    assert preview.outcome is CompactionOutcome.PREVIEWED
    assert preview.record is not None
    assert "summary number 1" in json.dumps(preview.messages)
    assert preview.loss
    assert preview.tokens_after < preview.tokens_before
    assert (events, session.record, session.history(), store.load("thread")) == ([], None, [], [])
    assert session.transform_context_sync(MESSAGES) is MESSAGES
    assert json.dumps(MESSAGES) == before


async def test_a_preview_is_taken_over_and_its_summary_is_paid_once() -> None:
    events: list[CompactionEvent] = []
    summarizer = Numbered()
    session = controller(200_000, summarizer=summarizer, events=events).session("thread")
    preview = await session.preview(MESSAGES, keep_recent_tokens=600)
    result = await session.compact([*MESSAGES, *talk(1)], preview=preview)
    assert result.messages == [*preview.messages, *talk(1)]
    assert len(summarizer.requests) == 1
    assert session.record == result.record
    assert [type(event) for event in events][-1] is CompactionFinished


def test_a_preview_that_is_no_longer_true_is_made_anew() -> None:
    edited = [MESSAGES[0], user("Port the lexer."), *MESSAGES[2:]]
    summarizer = Numbered()
    session = controller(200_000, summarizer=summarizer).session("thread")
    preview = session.preview_sync(MESSAGES, keep_recent_tokens=600)
    assert "summary number 2" in json.dumps(session.compact_sync(edited, 600, preview=preview).messages)
    again = session.compact_sync([*edited, *talk(4)], 600, preview=session.preview_sync(MESSAGES, 600))
    assert "summary number 4" in json.dumps(again.messages)


def test_a_preview_of_nothing_says_so() -> None:
    session = controller(200_000, summarizer=Scripted()).session("thread")
    assert session.preview_sync([user("hi")]).outcome is CompactionOutcome.NOTHING_TO_COMPACT
    result = session.compact_sync(MESSAGES, 600, preview=session.preview_sync([user("hi")]))
    assert result.outcome is CompactionOutcome.COMPACTED


def test_what_is_no_preview_is_refused_or_compacted_anew() -> None:
    summarizer = Numbered()
    session = controller(200_000, summarizer=summarizer).session("thread")
    with pytest.raises(ConfigurationError, match="preview"):
        session.compact_sync(MESSAGES, preview=MESSAGES)  # type: ignore[arg-type]
    preview = session.preview_sync(MESSAGES, 600)
    made = session.compact_sync(MESSAGES, 600, preview=replace(preview, outcome=CompactionOutcome.COMPACTED))
    assert "summary number 2" in json.dumps(made.messages)


@pytest.mark.parametrize("answers", [["- much " * 5_000, "- facts"], [RuntimeError("down"), "- facts"]])
def test_after_a_preview_without_gain_the_next_call_compacts(answers: list[str | Exception]) -> None:
    """The preview changes nothing, so the call does as it would without it."""
    messages = above_threshold()
    events: list[CompactionEvent] = []
    settings = CompactionSettings(strategies=(Summarize(),), breaker_failures=1)
    session = controller(8_192, summarizer=Scripted(*answers), settings=settings, events=events).session("thread")
    preview = session.preview_sync(messages)
    assert preview.outcome in (CompactionOutcome.NO_GAIN, CompactionOutcome.FAILED)
    assert preview.messages == messages
    session.transform_context_sync(messages)
    assert isinstance(events[-1], CompactionFinished)
