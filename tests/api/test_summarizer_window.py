"""`CompactionSettings.summarizer_window`: a history larger than the summarizer's window is summarized in parts."""

import asyncio
import inspect
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionRecord,
    CompactionSettings,
    Summarizer,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.conversations import PLAIN, Chat, Clock, prose, texts

ESTIMATE = CharacterEstimator().estimate_tokens
COUNT = 205
"""Questions, and as many answers."""


def conversation(count: int = COUNT) -> list[Chat]:
    talk: list[Chat] = []
    for number in range(count):
        talk.append({"role": "user", "content": f"Question number-{number}: {prose(60)}"})
        talk.append({"role": "assistant", "content": f"Answer value-{number}: {prose(60)}"})
    return talk


class Counting:
    """A summarizer model that answers with how much it has read so far, and says what each call cost."""

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Summary:
        assert request.prompt
        self.requests.append(request)
        return Summary(text=f"## Goal\n- part {len(self.requests)}", usage=Usage(input_tokens=100, output_tokens=10))

    @property
    def shown(self) -> str:
        return "\n".join(request.transcript for request in self.requests)


def compact(
    summarizer: Summarizer, window: int, **more: Any
) -> tuple[CompactionRecord, CompactionFinished, list[Chat]]:
    events: list[CompactionEvent] = []
    settings = CompactionSettings(summarizer_window=window, clear_tool_results=False, keep_user_tokens=0)
    hooks = CompactionController(
        context_window=128_000, summarizer=summarizer, settings=settings, on_event=events.append, **more
    )
    result = hooks.compact_sync(conversation(), keep_recent_tokens=200)
    assert result.record is not None
    return result.record, next(event for event in events if isinstance(event, CompactionFinished)), result.messages


def test_a_small_summarizer_reads_the_whole_history_in_parts_and_in_order() -> None:
    asked = Counting()
    record, event, view = compact(asked, window=16_000)
    assert 2 <= len(asked.requests) <= 4
    assert [asked.shown.count(f"number-{number}:") for number in range(COUNT - 5)] == [1] * (COUNT - 5)
    assert all(ESTIMATE(request.system + request.prompt) < 16_000 for request in asked.requests)
    assert [request.kind for request in asked.requests] == ["history", *["update"] * (len(asked.requests) - 1)]
    assert asked.requests[1].previous_summary == "## Goal\n- part 1"
    assert record.summary.startswith(f"## Goal\n- part {len(asked.requests)}\n")
    assert record.usage == Usage(input_tokens=100 * len(asked.requests), output_tokens=10 * len(asked.requests))
    assert (record.unseen_message_count, event.unseen_messages) == (0, 0)
    assert f"[The summary covers {record.compacted_message_count} messages]" in texts(view)


def test_beyond_four_parts_the_rest_is_summarized_by_rule_and_counted() -> None:
    asked = Counting()
    record, event, view = compact(asked, window=5_000)
    shown = sum(f"number-{number}:" in asked.shown for number in range(COUNT))
    assert len(asked.requests) == 4
    assert record.compacted_message_count - record.unseen_message_count in (2 * shown, 2 * shown - 1)
    assert event.unseen_messages == record.unseen_message_count > 100
    assert "part 4" in record.summary
    assert f"number-{COUNT - 2}" in record.summary
    assert f"of {record.unseen_message_count} of them only excerpts" in texts(view)


@pytest.mark.parametrize(
    ("seconds", "deadlines"),
    [
        pytest.param(60, [1_120.0, 1_120.0], id="two parts take all of the time"),
        pytest.param(1_000_000, [1_120.0, 1_001_120.0, 2_001_120.0, 3_001_120.0], id="the clock was set meanwhile"),
    ],
)
def test_all_parts_share_one_deadline(seconds: int, deadlines: list[float]) -> None:
    clock, asked = Clock(), Counting()

    def slow(request: SummaryRequest) -> Summary:
        clock.seconds += seconds
        return asked(request)

    record, event, _ = compact(slow, window=10_000, clock=clock)
    assert [request.deadline for request in asked.requests] == deadlines
    assert f"part {len(deadlines)}" in record.summary
    assert record.unseen_message_count > 0
    assert ("all of its time" in event.fallback_reason) == (seconds == 60)


def down(request: SummaryRequest) -> Summary:
    raise ConnectionError("down")


async def hanging(request: SummaryRequest) -> Summary:
    await asyncio.Event().wait()
    return Summary(text="- late")


def cut_off(request: SummaryRequest) -> Summary:
    return Summary(text="## Goal\n- par", usage=Usage(input_tokens=100, output_tokens=10), finish_reason="length")


@folded(
    "failure, seconds, cause, answers",
    {
        "it raises": (down, 0, "ConnectionError: down", 1),
        "it hangs": (hanging, 119.9, "TimeoutError: the summarizer did not answer within 0.1 seconds", 1),
        "its answer is cut off": (cut_off, 0, "SummaryRefusedError: the summary was cut off (finish reason length)", 2),
    },
)
def test_a_later_part_that_fails_does_not_lose_the_first_parts_and_is_a_failure(
    failure: Summarizer, seconds: float, cause: str, answers: int
) -> None:
    """All parts have 120 seconds; the clock says how many the first one took."""
    clock, events = Clock(), list[CompactionEvent]()

    async def failing(request: SummaryRequest) -> Summary | str:
        if request.kind == "history":
            clock.seconds += seconds
            return Counting()(request)
        answer = failure(request)
        return await answer if inspect.isawaitable(answer) else answer

    settings = CompactionSettings(summarizer_window=10_000, breaker_failures=1, clear_tool_results=False)
    hooks = CompactionController[Chat](
        context_window=128_000, summarizer=failing, settings=settings, on_event=events.append, clock=clock
    )
    session = hooks.session("thread")
    record = session.compact_sync(conversation(), keep_recent_tokens=200).record
    _, event = events
    assert record is not None
    assert isinstance(event, CompactionFinished)
    assert "part 1" in record.summary
    assert record.usage == event.usage == Usage(input_tokens=100 * answers, output_tokens=10 * answers)
    assert event.unseen_messages == record.unseen_message_count > 0
    assert event.used_fallback
    assert event.fallback_reason.startswith(cause)
    assert session.state().breaker == f"open: {event.fallback_reason}"


def test_the_count_goes_on_in_the_next_summary_and_in_another_process() -> None:
    settings = CompactionSettings(summarizer_window=5_000, clear_tool_results=False, keep_user_tokens=0)
    hooks = CompactionController(context_window=128_000, summarizer=Counting(), settings=settings)
    first = hooks.compact_sync(conversation(), keep_recent_tokens=200).record
    other = CompactionController(context_window=128_000, summarizer=Counting(), settings=settings)
    other.session("default").import_records(hooks.session("default").export_records())
    second = other.compact_sync(conversation(COUNT + 20), keep_recent_tokens=200).record
    assert first is not None
    assert second is not None
    assert second.compacted_message_count == first.compacted_message_count + 40
    assert second.unseen_message_count == first.unseen_message_count > 100


def test_a_summarizer_without_a_model_sees_everything() -> None:
    seen: list[int] = []

    def by_hand(request: SummaryRequest) -> str:
        seen.append(len(request.messages))
        return "- by hand"

    record, _, _ = compact(by_hand, window=2_000)
    assert seen == [record.compacted_message_count]
    assert record.unseen_message_count == 0


def test_a_history_summarized_anew_after_an_edit_does_not_exceed_the_window() -> None:
    """Usage of the conversation taught that the estimate is twice too high; of the transcript it is not."""
    asked = Counting()
    hooks = CompactionController(context_window=16_000, summarizer=asked, settings=PLAIN)
    session = hooks.session("one")
    messages: list[Chat] = []
    for _ in range(300):
        messages += conversation(1)
        view = session.transform_context_sync(messages)
        counted = sum(ESTIMATE(str(message["content"])) for message in view) // 2
        session.report_usage(Usage(input_tokens=counted, output_tokens=1))
    rounds = len(asked.requests)
    edited = [{"role": "user", "content": "Another first question."}, *messages[1:]]
    session.transform_context_sync(edited)
    assert len(asked.requests) > rounds + 1
    assert max(ESTIMATE(request.system + request.prompt) for request in asked.requests) <= 16_000
