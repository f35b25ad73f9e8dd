"""`usage` of events and records, `SessionState.summary_usage`: what summaries cost, by estimate if the summarizer does not tell."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import (
    CompactionFailed,
    CompactionFinished,
    CompactionOutcome,
    CompactionRecord,
    CompactionSettings,
    CompactionSkipped,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.conversations import (
    PLAIN,
    UNFILLED,
    Chat,
    Controller,
    Scripted,
    above_threshold,
    assistant,
    controller,
    prose,
    steps,
    summarizing,
    system,
    talk,
    user,
)

TEXT = "## Goal\n- go on"
COST = Usage(input_tokens=900, output_tokens=40)
NOTHING = Usage(input_tokens=0)
SIZES = CharacterEstimator()


def prompt_tokens(request: SummaryRequest) -> int:
    return SIZES.estimate_tokens(request.system) + SIZES.estimate_tokens(request.prompt)


def transcript_tokens(request: SummaryRequest) -> int:
    return SIZES.estimate_tokens(request.system) + SIZES.estimate_tokens(request.transcript)


def message_tokens(request: SummaryRequest) -> int:
    earlier = SIZES.estimate_tokens(request.previous_summary or "")
    return earlier + sum(map(SIZES.estimate_message_tokens, request.messages))


class Reading(Scripted):
    """A summarizer that reads one of the texts of its request."""

    def __init__(self, field: str, *answers: str | Summary | Exception) -> None:
        super().__init__(*(answers or (TEXT,)))
        self._field = field

    def __call__(self, request: SummaryRequest) -> str | Summary:
        assert getattr(request, self._field)
        return super().__call__(request)


class AsyncReading(Reading):
    async def __call__(self, request: SummaryRequest) -> str | Summary:  # type: ignore[override]
        return super().__call__(request)


def ends(events: list[CompactionEvent]) -> list[CompactionFinished | CompactionSkipped | CompactionFailed]:
    return [event for event in events if isinstance(event, CompactionFinished | CompactionSkipped | CompactionFailed)]


@folded(
    "field, kind, read",
    {
        "the prompt": ("prompt", Reading, prompt_tokens),
        "the prompt, async": ("prompt", AsyncReading, prompt_tokens),
        "the transcript alone": ("transcript", Reading, transcript_tokens),
        "the messages": ("messages", Reading, message_tokens),
    },
)
async def test_a_bare_text_costs_an_estimate_of_what_was_read_and_written(
    field: str, kind: type[Reading], read: Callable[[SummaryRequest], int]
) -> None:
    """The second summary is an update: its summarizer is given the first one, too."""
    events: list[CompactionEvent] = []
    asked = kind(field)
    hooks = controller(8_192, summarizer=asked, events=events, settings=UNFILLED)
    await hooks.transform_context(above_threshold())
    await hooks.compact([*above_threshold(), *talk(10, first=15)], keep_recent_tokens=100)
    first, second = (
        Usage(input_tokens=read(request), output_tokens=SIZES.estimate_tokens(TEXT), is_estimate=True)
        for request in asked.requests
    )
    assert asked.requests[1].kind == "update"
    assert [event.usage for event in ends(events)] == [first, second]
    assert [record.usage for record in hooks.history()] == [first, second]
    assert hooks.state().summary_usage == first + second


ESTIMATED = Usage(input_tokens=900, output_tokens=40, is_estimate=True)


@folded(
    "answer, cost",
    {
        "usage": (Summary(TEXT, usage=COST), COST),
        "usage of a refused text": (Summary("- half", usage=COST, finish_reason="length"), COST),
        "usage of zero": (Summary(TEXT, usage=NOTHING), NOTHING),
        "the host's own estimate": (Summary(TEXT, usage=ESTIMATED), ESTIMATED),
        "by rule": (Summary(TEXT, is_by_rule=True), None),
        "the reason why there is none": (Summary("", fallback_reason="the provider gave none"), None),
        "an error": (ConnectionError("down"), None),
    },
)
def test_a_cost_that_is_told_or_that_no_answer_made_is_not_estimated(
    answer: Summary | Exception, cost: Usage | None
) -> None:
    events: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Reading("prompt", answer), events=events, settings=PLAIN)
    hooks.transform_context_sync(above_threshold())
    assert [event.usage for event in ends(events)] == [cost]
    assert hooks.state().summary_usage == (cost or NOTHING)


def test_a_sum_is_an_estimate_if_either_part_is() -> None:
    sums = (COST + COST, COST + ESTIMATED, ESTIMATED + COST)
    assert [each.is_estimate for each in sums] == [False, True, True]


@folded(
    "answer, output",
    {
        "an empty text": ("", 0),
        "a text without headings": ("I cannot.", SIZES.estimate_tokens("I cannot.")),
        "no text": (7, 0),
        "a part of a token": (Summary("I cannot.", usage=Usage(input_tokens=1.5)), SIZES.estimate_tokens("I cannot.")),  # type: ignore[arg-type]
        "a mark that is none": (Summary("", usage=Usage(input_tokens=1, is_estimate="no")), 0),  # type: ignore[arg-type]
    },
)
def test_a_refused_answer_without_usage_is_estimated_too(answer: str | Summary, output: int) -> None:
    events: list[CompactionEvent] = []
    asked = Reading("prompt", answer)
    hooks = controller(8_192, summarizer=asked, events=events)
    hooks.transform_context_sync(above_threshold())
    (failed,) = ends(events)
    estimate = Usage(input_tokens=prompt_tokens(asked.requests[0]), output_tokens=output, is_estimate=True)
    assert isinstance(failed, CompactionFailed)
    assert failed.usage == hooks.state().summary_usage == estimate


def test_the_estimate_of_a_text_of_megabytes_is_bounded() -> None:
    events: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted("- fact\n" * 1_000_000), events=events)
    hooks.transform_context_sync(above_threshold())
    (failed,) = ends(events)
    assert failed.usage is not None
    assert 0 < failed.usage.output_tokens < 100_000


IN_PARTS = CompactionSettings(summarizer_window=10_000, clear_tool_results=False)


def long_talk() -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": role, "content": f"{number} {prose(60)}"} for number in range(205) for role in roles]


def test_the_cost_of_a_summary_in_parts_is_their_sum_and_an_estimate_if_one_part_is() -> None:
    events: list[CompactionEvent] = []
    asked = Reading("prompt", Summary(TEXT, usage=COST), TEXT)
    hooks = controller(128_000, summarizer=asked, settings=IN_PARTS, events=events)
    record = hooks.compact_sync(long_talk(), keep_recent_tokens=200).record
    told, *others = asked.requests
    assert told.kind == "history"
    assert others
    written = len(others) * SIZES.estimate_tokens(TEXT)
    estimate = Usage(input_tokens=sum(map(prompt_tokens, others)), output_tokens=written, is_estimate=True)
    assert record is not None
    assert record.usage == ends(events)[-1].usage == hooks.state().summary_usage == COST + estimate
    assert hooks.state().summary_usage.is_estimate


def test_parts_that_came_before_an_abort_are_paid_for() -> None:
    events: list[CompactionEvent] = []
    signal, is_over = threading.Event(), threading.Event()

    def interrupted(request: SummaryRequest) -> Summary:
        if request.kind == "update":
            signal.set()
            is_over.wait(10)
        assert request.prompt
        return Summary(TEXT, usage=COST)

    hooks = controller(128_000, summarizer=interrupted, settings=IN_PARTS, events=events)
    result = hooks.compact_sync(long_talk(), keep_recent_tokens=200, signal=signal)
    is_over.set()
    assert result.outcome is CompactionOutcome.ABORTED
    assert ends(events)[-1].usage == hooks.state().summary_usage == COST


# -- the sum of a conversation


def test_the_state_of_a_conversation_without_a_model_has_a_cost_of_zero() -> None:
    hooks = controller(8_192)
    assert hooks.state().summary_usage == NOTHING
    hooks.transform_context_sync(above_threshold())
    assert hooks.state().compaction_count == 1
    assert hooks.state().summary_usage == NOTHING


def told(*answers: str) -> Scripted:
    return Scripted(*(Summary(text, usage=COST) for text in answers or (TEXT,)))


def test_what_is_discarded_undone_or_previewed_was_paid_for() -> None:
    events: list[CompactionEvent] = []
    hooks = summarizing(told("- one", "- two", "- three", "- four"), events=events)
    hooks.transform_context_sync(above_threshold())
    hooks.undo()
    assert hooks.state().summary_usage == COST
    messages = [*above_threshold(), *talk(10, first=15)]
    preview = hooks.preview_sync(messages, keep_recent_tokens=100)
    assert hooks.state().summary_usage == COST + COST
    hooks.compact_sync(messages, preview=preview)
    assert [record.usage for record in hooks.history()] == [COST]
    assert hooks.state().summary_usage == COST + COST, "the previewed summary is paid once"
    assert [event.usage for event in ends(events)] == [COST, COST], "a preview has no event of its own"


def test_a_summary_that_no_view_has_room_for_was_paid_for() -> None:
    events: list[CompactionEvent] = []
    short = [user("go"), assistant("short " + prose(60)), user("x"), assistant("y"), user(prose(600))]
    hooks = controller(8_192, summarizer=told("- facts"), events=events)
    hooks.transform_context_sync([system(prose(5_600)), *short])
    (skipped,) = ends(events)
    assert isinstance(skipped, CompactionSkipped)
    assert skipped.usage == hooks.state().summary_usage == COST


def test_another_process_knows_the_cost_of_the_records_and_counts_each_once() -> None:
    store = MemoryStore()
    messages = above_threshold()
    first = summarizing(store=store)
    first.transform_context_sync(messages)
    first.compact_sync([*messages, *talk(10, first=15)], keep_recent_tokens=100)
    cost = first.state().summary_usage
    assert cost.is_estimate
    assert cost.output_tokens == 2 * SIZES.estimate_tokens("summary number 1")

    second = summarizing(told(), store=store)
    assert second.state().summary_usage == NOTHING, "nothing is loaded yet"
    second.load_sync()
    second.load_sync()
    second.session("default").import_records(first.session("default").export_records())
    assert second.state().summary_usage == cost
    second.compact_sync([*messages, *talk(20, first=15)], keep_recent_tokens=100)
    first.load_sync()
    assert first.state().summary_usage == second.state().summary_usage == cost + COST
    second.forget_sync("default")
    assert second.state().summary_usage == NOTHING


def test_only_an_estimate_is_marked_in_the_json_of_a_record() -> None:
    counts = {"input_tokens": 900, "output_tokens": 40, "cache_read_tokens": 0, "cache_write_tokens": 0}
    for summarizer, marks in ((told(), {}), (Scripted(Summary(TEXT, usage=ESTIMATED)), {"is_estimate": True})):
        hooks: Controller = summarizing(summarizer)
        hooks.transform_context_sync(above_threshold())
        (record,) = hooks.history()
        assert record.to_dict()["usage"] == {**counts, **marks}
        assert CompactionRecord.from_json(record.to_json()) == record


def test_a_summary_that_is_paid_again_because_its_record_was_lost_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def warns(request: list[Chat], **more: Any) -> bool:
        """Serve a request as a program does that makes its controller anew; return whether it was warned."""
        caplog.clear()
        settings, summarizer = more.pop("settings", PLAIN), more.pop("summarizer", Scripted())
        controller(summarizer=summarizer, settings=settings, **more).transform_context_sync(request)
        return "summarized a conversation once more" in caplog.text

    def requests(task: str) -> list[list[Chat]]:
        return [[system(), user(task), *steps(count, 300)] for count in (22, 30, 40)]

    two = zip(requests("Port the printer."), requests("Port the scanner."), strict=True)
    assert [[*map(warns, pair)] for pair in two] == [[False, False], [True, True], [True, True]]
    store = MemoryStore()
    assert [warns(request, store=store) for request in requests("Keep it.")] == [False, False, False]
    assert [warns(request, summarizer=None) for request in requests("By rule.")] == [False, False, False]
    assert [warns([system(), user(task), *steps(22, 300)]) for task in ("One.", "Two.")] == [False, False]


@folded(
    "task, given, fork",
    [
        ("Fork what grew.", slice(4, None, 2), slice(None)),
        ("Fork it before its end.", slice(-1, None), slice(-6)),
        ("Fork it for another request.", slice(-1, None), slice(-1)),
    ],
)
def test_a_fork_that_is_made_on_purpose_is_not_warned_of(
    task: str, given: slice, fork: slice, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = summarizing(asked := Scripted())
    messages = [system(), user(task), *steps(30, 300), assistant("Done."), user("Go on.")]
    for end in range(len(messages) + 1)[given]:
        hooks.session("one way").transform_context_sync(messages[:end])
    paid = len(asked.requests)
    hooks.session("another").transform_context_sync([*messages[fork], assistant("Well."), user("Not so.")])
    assert 0 < paid < len(asked.requests)
    assert "once more" not in caplog.text


def test_a_later_compaction_of_a_session_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hooks = summarizing(Scripted())
    for count in (22, 40):
        hooks.transform_context_sync([system(), user("Go on and on."), *steps(count, 300)])
    assert hooks.session("default").state().compaction_count == 2
    assert "once more" not in caplog.text


def test_a_compaction_after_an_undone_one_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hooks = summarizing(Scripted())
    messages = [system(), user("Take it back."), *steps(22, 300)]
    hooks.transform_context_sync(messages)
    assert hooks.session("default").undo() is not None
    assert hooks.session("default").compact_sync(messages).record is not None
    assert "once more" not in caplog.text


def test_a_summary_that_another_worker_makes_at_the_same_time_is_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, messages = MemoryStore(), [system(), user("Work in two places."), *steps(22, 300)]
    other = summarizing(slow := Scripted(), store=store)

    def write(request: SummaryRequest) -> str:
        other.compact_sync(messages)
        return "## Goal\n- work"

    assert summarizing(write, store=store).compact_sync(messages).outcome == "compacted"
    assert len(slow.requests) == 1
    assert "once more" not in caplog.text
