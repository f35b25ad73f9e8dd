"""`compact` and `compact_sync`: a compaction by hand; `preview`: a compaction is seen before it is made."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionOutcome,
    CompactionSettings,
    ConfigurationError,
    ContextOverflowError,
    Usage,
)
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import BedrockConverseFormat, OpenAIChatFormat
from compaction_hooks.recall import loss_of
from compaction_hooks.stores import MemoryStore
from compaction_hooks.strategies import Summarize
from compaction_hooks.tokens import CharacterEstimator, estimate_messages_tokens
from tests.conversations import (
    Chat,
    Numbered,
    Scripted,
    above_threshold,
    assistant,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    user,
)


@pytest.mark.parametrize("turns", [24, 48])
def test_a_quarter_of_the_context_is_kept_where_nothing_else_is_said(turns: int) -> None:
    messages = [system(), *talk(turns, tokens=100)]
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    hooks.transform_context_sync(messages)
    whole = hooks.state().context_tokens or 0
    view = hooks.compact_sync(messages).messages
    read, size = OpenAIChatFormat().read, CharacterEstimator()
    kept = estimate_messages_tokens([piece for message in view[2:] for piece in read(message)], size)
    assert 0.22 < kept / whole <= 0.25


def test_a_manual_compaction_of_a_list_that_no_longer_fits_is_not_taken_for_done() -> None:
    """The compacted view was rejected too, so it is larger than the window, in spite of the estimate."""
    hooks = controller(4_096, summarizer=Scripted("- facts"))
    messages = [user("Read them all."), *steps(14)]

    def rejecting(view: list[Chat]) -> None:
        raise RuntimeError("prompt is too long")

    with pytest.raises(ContextOverflowError):
        hooks.call_sync(messages, rejecting)
    rejected = hooks.state().context_tokens or 0
    assert rejected > 4_096
    result = hooks.compact_sync(messages)
    assert result.outcome is CompactionOutcome.COMPACTED
    assert result.tokens_after <= 4_096


def test_manual_compaction_takes_focus_and_a_number_to_keep() -> None:
    asked = Scripted()
    messages = talk(20)
    few = controller(200_000, summarizer=asked).compact_sync(messages, keep_recent_tokens=500, focus="the schema")
    many = controller(200_000, summarizer=asked).compact_sync(messages, keep_recent_tokens=6_000)
    assert len(few.messages) < len(many.messages)
    assert asked.requests[0].focus == "the schema"
    assert "the schema" in asked.requests[0].prompt


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="empty"),
        pytest.param([system()], id="only a system prompt"),
        pytest.param([user("hello")], id="one message"),
        pytest.param([user("hello"), user("again")], id="one side only"),
        pytest.param([user("hello"), assistant("hi")], id="one turn"),
    ],
)
def test_nothing_to_compact_is_refused_without_a_summary(messages: list[Chat]) -> None:
    asked = Scripted()
    result = controller(200_000, summarizer=asked).compact_sync(messages)
    assert result.outcome is CompactionOutcome.NOTHING_TO_COMPACT
    assert result.messages is messages
    assert asked.requests == []


def test_manual_compaction_right_after_another_is_refused_and_later_works() -> None:
    hooks = controller(200_000, summarizer=Scripted())
    first = hooks.compact_sync(talk(10), keep_recent_tokens=300)
    again = hooks.compact_sync(first.messages, keep_recent_tokens=300)
    assert again.outcome is CompactionOutcome.NOTHING_TO_COMPACT
    later = hooks.compact_sync([*first.messages, *talk(10, first=10)], keep_recent_tokens=300)
    assert later.outcome is CompactionOutcome.COMPACTED


@pytest.mark.parametrize(
    ("part", "messages", "more"),
    [
        ("system prompt", [system(prose(9_000)), *talk(2)], {}),
        ("tools", talk(2), {"tools": [{"name": "search", "description": prose(9_000)}]}),
        ("current request", [*talk(2), user(prose(9_000))], {}),
        ("pins", [user(prose(9_000)), *talk(2)], {}),
        ("last step", [*talk(2), *steps(1, 9_000)], {}),
    ],
)
def test_manual_compaction_that_cannot_fit_names_the_part(
    part: str, messages: list[Chat], more: dict[str, Any]
) -> None:
    hooks = controller(8_192, settings=CompactionSettings(strategies=[Summarize()]))
    if part == "pins":
        hooks.session("default").pin(messages[0])
    with pytest.raises(ContextOverflowError, match=f"the {part} takes about .*; shorten the {part} or") as caught:
        hooks.compact_sync(messages, **more)
    assert (caught.value.part, caught.value.window) == (part, 8_192)
    assert caught.value.tokens is not None
    assert caught.value.tokens > 8_192


def test_the_compacted_list_can_be_stored_and_goes_on() -> None:
    """The host replaces its list; the next view of the trimmed list is that list."""
    hooks = controller(8_192, summarizer=Scripted())
    result = hooks.compact_sync([system(), *talk(12)])
    stored = [*result.messages, user("next")]
    assert hooks.transform_context_sync(stored) is stored


def test_the_compactions_of_a_stored_list_count_each_message_once() -> None:
    hooks = controller(200_000, summarizer=Scripted())
    host, stored = hooks.session("host's list"), hooks.session("stored list")
    messages = [system(), *talk(12)]
    host.pin(messages[1])
    stored.pin(messages[1])
    shorter = stored.compact_sync(messages, keep_recent_tokens=100).messages
    for turn in range(12, 36, 12):
        messages += talk(12, first=turn)
        shorter += talk(12, first=turn)
        records = [
            session.compact_sync(listed, keep_recent_tokens=100).record
            for session, listed in ((host, messages), (stored, shorter))
        ]
        counts = [record.compacted_message_count for record in records if record]
        assert counts == [len(messages) - 1] * 2


def test_a_stored_list_that_is_rewound_to_its_summary_has_nothing_to_compact() -> None:
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    stored = hooks.compact_sync([system(), *talk(12)]).messages
    assert hooks.compact_sync(stored[:2]).outcome is CompactionOutcome.NOTHING_TO_COMPACT


def test_a_stored_list_of_bedrock_has_no_user_messages_in_a_row() -> None:
    talked = [*talk(12), user("And the tests?")]
    messages = [{"role": message["role"], "content": [{"text": message["content"]}]} for message in talked]
    hooks = CompactionController[Any](context_window=200_000, format=BedrockConverseFormat())
    stored = hooks.compact_sync(messages).messages
    for restarted in (hooks, CompactionController[Any](context_window=200_000)):
        roles = [message["role"] for message in restarted.transform_context_sync(stored)]
        assert all(one != other for one, other in pairwise(roles))


def test_a_compaction_by_hand_summarizes_though_clearing_would_do() -> None:
    asked = Scripted("- what was read")
    messages = [user("go"), *steps(24, 500)]
    assert "Old tool result cleared" in texts(controller(16_384, summarizer=asked).transform_context_sync(messages))
    assert asked.requests == []
    result = controller(16_384, summarizer=asked).compact_sync(messages, focus="the parser")
    assert "- what was read" in texts(result.messages)


MESSAGES = [system(), user("Port the parser."), *steps(12), *talk(3)]


def test_a_compaction_by_hand_right_after_a_clearing_summarizes() -> None:
    hooks = controller(summarizer=Scripted("- by hand"))
    messages = [system(), user("Port the parser."), *steps(22, 300)]
    hooks.transform_context_sync(messages)
    (cleared,) = hooks.session("default").history()
    assert cleared.summary == ""
    result = hooks.compact_sync(messages)
    assert result.outcome is CompactionOutcome.COMPACTED
    assert "- by hand" in texts(result.messages)


def test_a_preview_shows_the_record_and_the_view_and_changes_nothing() -> None:
    events: list[CompactionEvent] = []
    store = MemoryStore()
    session = controller(200_000, summarizer=Numbered(), events=events, store=store).session("thread")
    before = json.dumps(MESSAGES)
    preview = session.preview_sync(MESSAGES, keep_recent_tokens=600)
    assert preview.outcome is CompactionOutcome.PREVIEWED
    assert preview.record is not None
    assert "summary number 1" in json.dumps(preview.messages)
    assert loss_of(MESSAGES, preview.record)["request"]
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


def test_a_preview_of_a_list_that_has_grown_since_is_made_anew_if_its_view_would_be_too_large() -> None:
    summarizer = Numbered()
    session = controller(8_192, summarizer=summarizer).session("thread")
    preview = session.preview_sync(MESSAGES, keep_recent_tokens=600)
    result = session.compact_sync([*MESSAGES, *steps(6, 1_000)], 600, preview=preview)
    assert result.tokens_after < 8_192
    assert len(summarizer.requests) == 2


def test_a_preview_of_nothing_says_so() -> None:
    session = controller(200_000, summarizer=Scripted()).session("thread")
    assert session.preview_sync([user("hi")]).outcome is CompactionOutcome.NOTHING_TO_COMPACT
    result = session.compact_sync(MESSAGES, 600, preview=session.preview_sync([user("hi")]))
    assert result.outcome is CompactionOutcome.COMPACTED


def test_a_usage_report_after_a_preview_is_of_the_view_that_was_sent() -> None:
    settings = CompactionSettings(strategies=(Summarize(),))
    session = controller(200_000, summarizer=Scripted(RuntimeError("down")), settings=settings).session("thread")
    session.transform_context_sync(MESSAGES[:3])
    assert session.preview_sync(MESSAGES, 600).outcome is CompactionOutcome.FAILED
    session.report_usage(Usage(input_tokens=5_000, output_tokens=10))
    session.transform_context_sync(MESSAGES)
    assert (
        session.state().context_tokens or 0
    ) > 5_500  # the report does not count the messages that only the preview saw


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
