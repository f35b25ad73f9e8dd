"""The controller and its summarizer: its requests, refused summaries, and failures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from compaction_hooks import (
    CompactionFailed,
    CompactionFinished,
    CompactionOutcome,
    CompactionSettings,
    CompactionSkipped,
    ExtractiveSummarizer,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.runtime.effects import Instant
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

Chat = Mapping[str, object]
PLAIN = CompactionSettings(clear_tool_results=False)
LONG = [system(), user("Port the parser."), *steps(20, 400)]
"""Above the threshold of a window of 8,192 and still inside the window's reach of a summary."""


def fits() -> list[Chat]:
    """Return a list above the threshold of 8,192, below the window."""
    return [system(), *talk(15)]


class Clock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> Instant:
        return Instant(datetime(2026, 2, 10, 21, 30, tzinfo=UTC), self.seconds)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_any_callable_is_a_summariser(is_async: bool) -> None:
    """Sync or async, a text or a Summary; no model is assumed."""

    async def later(request: SummaryRequest) -> str:
        await asyncio.sleep(0)
        return "- from a coroutine"

    def now(request: SummaryRequest) -> Summary:
        return Summary(text="- from a function")

    view = await controller(8_192, summarizer=later if is_async else now).transform_context(fits())
    assert ("from a coroutine" if is_async else "from a function") in texts(view)


def test_a_coroutine_summariser_serves_sync_callers() -> None:
    async def later(request: SummaryRequest) -> str:
        await asyncio.sleep(0)
        return "- from a coroutine"

    assert "from a coroutine" in texts(controller(8_192, summarizer=later).transform_context_sync(fits()))


async def test_a_sync_summariser_does_not_block_the_loop() -> None:
    release = threading.Event()

    def blocking(request: SummaryRequest) -> str:
        assert release.wait(10)
        return "- done"

    task = asyncio.create_task(controller(8_192, summarizer=blocking).transform_context(fits()))
    await asyncio.sleep(0)
    release.set()
    assert "- done" in texts(await task)


def test_the_second_summary_updates_the_first() -> None:
    """The record's summary becomes the previous one; only new messages are shown."""
    asked = Scripted("- one", "- two")
    hooks = controller(8_192, summarizer=asked, settings=PLAIN)
    messages: list[Chat] = [system()]
    while len(asked.requests) < 2:
        messages = [*messages, *talk(1, first=len(messages))]
        hooks.transform_context_sync(messages)
    first, second = asked.requests
    assert (first.kind, first.previous_summary) == ("history", None)
    assert (second.kind, second.previous_summary) == ("update", "- one")
    assert not {m.text for m in first.messages} & {m.text for m in second.messages}
    record = hooks.session("default").export_records()[-1]
    assert (record["summary"], record["previous_summary"], record["compaction_count"]) == ("- two", "- one", 2)


def test_a_short_prefix_of_a_turn_is_folded_into_the_history() -> None:
    """Fewer than five messages before the cut get no summary of their own."""
    asked = Scripted("- all of it")
    messages = [*talk(12), user("Now port it."), *steps(2, 300)]
    controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=500)
    assert [request.kind for request in asked.requests] == ["history"]


def test_a_long_prefix_of_a_turn_is_summarised_after_the_history_one_at_a_time() -> None:
    """Never two summary calls at once; the history comes first."""
    asked = Scripted("- history", "- prefix")
    messages = [*talk(4), user("Now port it."), *steps(10, 200)]
    result = controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=500, focus="the schema")
    assert [request.kind for request in asked.requests] == ["history", "turn_prefix"]
    assert all("the schema" in request.prompt for request in asked.requests), "focus reaches the split turn"
    assert result.record is not None
    assert result.record.summary.index("- history") < result.record.summary.index("- prefix")


def test_the_turn_that_is_split_again_is_updated() -> None:
    asked = Scripted("- one", "- two")
    hooks = controller(8_192, summarizer=asked, settings=PLAIN)
    messages = [user("go"), *steps(20, 300)]
    hooks.compact_sync(messages, keep_recent_tokens=500)
    hooks.compact_sync([*messages, *steps(20, 300, first=20)], keep_recent_tokens=500)
    assert [request.kind for request in asked.requests] == ["turn_prefix", "update"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ConnectionError("down"), id="an error"),
        pytest.param(PermissionError("quota exceeded"), id="a quota error is not tried again"),
        pytest.param("", id="empty"),
        pytest.param("   \n", id="blank"),
        pytest.param(Summary(text="- half a", finish_reason="length"), id="truncated"),
        pytest.param(Summary(text="- ok", tool_calls=({"name": "grep"},)), id="calls a tool"),
        pytest.param(prose(3_000), id="longer than allowed"),
        pytest.param(7, id="not a text"),
    ],
)
def test_a_failing_summariser_does_not_fail_the_agent(answer: object) -> None:
    """The uncompacted list is sent if it fits, and an event says why."""
    events: list[CompactionEvent] = []
    messages = fits()
    asked = Scripted(answer)  # type: ignore[arg-type]  # wrong answers on purpose
    assert controller(8_192, summarizer=asked, events=events).transform_context_sync(messages) is messages
    assert len(asked.requests) == 1, "one attempt for one trigger"
    failed = [event for event in events if isinstance(event, CompactionFailed)]
    assert not failed[0].is_over_window


def test_when_the_summariser_fails_and_the_list_does_not_fit_the_rungs_without_a_model_are_used() -> None:
    """A marker replaces dropped messages, with their count by role and the facts extracted by rule."""
    events: list[CompactionEvent] = []
    messages = [system(), *talk(40)]
    hooks = controller(8_192, summarizer=Scripted(ConnectionError("down")), events=events)
    view = hooks.transform_context_sync(messages)
    assert "[Compacted " in texts(view)
    assert "assistant" in texts(view)
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert finished[0].used_fallback


def test_a_failure_means_something_else_for_each_reason() -> None:
    """The threshold goes on uncompacted, by hand it says so, after an overflow it must shrink all the same."""
    down, messages = Scripted(ConnectionError("down")), fits()
    assert controller(8_192, summarizer=down).transform_context_sync(messages) is messages
    assert controller(8_192, summarizer=down).compact_sync(messages).outcome is CompactionOutcome.FAILED
    error = ValueError("prompt is too long: 8500 tokens > 8192 maximum")
    assert "[Compacted " in texts(controller(8_192, summarizer=down).recover_sync(error, messages))


def test_a_request_is_plain_text_that_any_model_takes() -> None:
    """No thinking, no tools, no mode that some model or provider rejects."""
    asked = Scripted()
    thinking = [
        {**message, "reasoning_content": "private musings"} for message in talk(12) if message["role"] == "assistant"
    ]
    spoken = [message for pair in zip(talk(12)[::2], thinking, strict=True) for message in pair]
    controller(8_192, summarizer=asked).compact_sync(spoken, keep_recent_tokens=500)
    (request,) = asked.requests
    assert "private musings" not in request.system + request.prompt


def test_the_breaker_opens_after_three_failures_and_heals() -> None:
    """It stops asking, says why, lets one attempt through after the cooldown, and closes when that works."""
    clock, events = Clock(), list[CompactionEvent]()
    asked = Scripted(*[ConnectionError("down")] * 3, "- back again")
    hooks = controller(8_192, summarizer=asked, events=events, clock=clock)
    messages = fits()
    for _ in range(5):
        assert hooks.transform_context_sync(messages) is messages
    assert len(asked.requests) == 3
    assert hooks.state().breaker == "open: ConnectionError: down"
    assert [event.why for event in events if isinstance(event, CompactionSkipped)] == ["breaker open"] * 2
    clock.seconds += hooks.settings.breaker_cooldown_seconds
    assert "- back again" in texts(hooks.transform_context_sync(messages))
    assert hooks.state().breaker == "closed"


def test_an_open_breaker_does_not_hold_back_a_manual_compaction() -> None:
    asked = Scripted(*[ConnectionError("down")] * 3, "- by hand")
    hooks = controller(8_192, summarizer=asked, clock=Clock())
    for _ in range(4):
        hooks.transform_context_sync(fits())
    assert hooks.compact_sync(fits()).outcome is CompactionOutcome.COMPACTED


def test_a_failed_manual_compaction_says_so_and_changes_nothing() -> None:
    messages = fits()
    result = controller(8_192, summarizer=Scripted(ConnectionError("down"))).compact_sync(messages)
    assert result.outcome is CompactionOutcome.FAILED
    assert result.messages is messages


def test_an_earlier_summary_is_carried_on_when_only_a_turns_beginning_is_new() -> None:
    """If only the first part of a turn is newly covered, it is an update all the same."""
    asked = Scripted("- the first facts", "- both")
    hooks = controller(8_192, summarizer=asked, settings=PLAIN)
    messages = [*talk(12), user("port it")]
    hooks.compact_sync(messages, keep_recent_tokens=1)
    record = hooks.compact_sync([*messages, *steps(12, 300)], keep_recent_tokens=500).record
    assert [request.kind for request in asked.requests] == ["history", "update"]
    assert asked.requests[1].previous_summary == "- the first facts"
    assert record is not None
    assert record.summary == "- both"


def test_a_summariser_that_overflows_is_shown_less_and_asked_again() -> None:
    """Three times at most; the run goes on."""

    class Small(Scripted):
        def __call__(self, request: SummaryRequest) -> str | Summary:
            self.requests.append(request)
            if len(request.transcript) > 15_000:
                raise ValueError(
                    "This model's maximum context length is 2000 tokens, however you requested 5000 tokens"
                )
            return "- it fitted"

    small = Small()
    view = controller(16_384, summarizer=small, settings=PLAIN).transform_context_sync([user("go"), *steps(30, 500)])
    assert "- it fitted" in texts(view)
    assert 2 <= len(small.requests) <= 3


def test_a_summariser_that_overflows_on_next_to_nothing_counts_as_failed() -> None:
    asked = Scripted(ValueError("This model's maximum context length is 20 tokens, however you requested 5000 tokens"))
    messages = [user("hi"), assistant("ok"), user("next")]
    result = controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=0)
    assert result.outcome is CompactionOutcome.FAILED
    assert [request.transcript for request in asked.requests] == ["[User]: hi\n\n[Assistant]: ok", "[User]: hi"]


def test_a_hung_sync_summariser_costs_one_thread() -> None:
    release = threading.Event()
    started: list[int] = []

    def hangs(request: SummaryRequest) -> str:
        started.append(threading.get_ident())
        release.wait(10)
        return "- too late"

    settings = CompactionSettings(summary_timeout_seconds=0.01)
    hooks = controller(8_192, summarizer=hangs, settings=settings)
    messages = fits()
    try:
        assert [hooks.transform_context_sync(messages) is messages for _ in range(2)] == [True, True]
    finally:
        release.set()
    assert len(started) == 1


def test_the_deadline_is_told() -> None:
    asked, clock = Scripted(), Clock()
    clock.seconds = 1_000.0
    controller(8_192, summarizer=asked, clock=clock).transform_context_sync(fits())
    assert asked.requests[0].deadline == 1_120.0


def test_what_a_summary_costs_is_in_the_record_and_the_event() -> None:
    events: list[CompactionEvent] = []
    cost = Usage(input_tokens=900, output_tokens=120)
    hooks = controller(8_192, summarizer=Scripted(Summary(text="- ok", usage=cost)), events=events)
    hooks.transform_context_sync(fits())
    finished = next(event for event in events if isinstance(event, CompactionFinished))
    assert finished.usage == cost
    assert finished.record.usage == cost


def test_a_refused_answer_is_paid_for_all_the_same() -> None:
    events: list[CompactionEvent] = []
    cost = Usage(input_tokens=900, output_tokens=120)
    asked = Scripted(Summary(text="- half", usage=cost, finish_reason="length"))
    controller(8_192, summarizer=asked, events=events).transform_context_sync(fits())
    assert next(event.usage for event in events if isinstance(event, CompactionFailed)) == cost


def test_file_lists_are_appended_by_code_and_cumulative() -> None:
    """From tool calls, over several compactions; read, then modified, is modified only."""
    hooks = controller(8_192, summarizer=Scripted("- one", "- two"), settings=PLAIN)
    messages = [user("go"), *steps(14, 300)]
    first = hooks.compact_sync(messages, keep_recent_tokens=500)
    edit = [
        assistant(None, call("e", "edit_file", path="src/module_0.py", old_string="a", new_string="b")),
        tool("e", "edited"),
    ]
    second = hooks.compact_sync([*messages, *edit, *steps(14, 300, first=20)], keep_recent_tokens=500)
    assert first.record is not None
    assert second.record is not None
    assert "src/module_0.py" in first.record.read_files
    assert "src/module_0.py" not in second.record.read_files
    assert second.record.modified_files == ("src/module_0.py",)
    assert "src/module_1.py" in second.record.read_files
    assert "<modified-files>\nsrc/module_0.py" in str(second.messages[0]["content"])


def test_a_host_can_pass_its_own_file_list() -> None:
    from compaction_hooks.files import FileOperations

    tracked = FileOperations(read=("docs/plan.md",), modified=("src/core.py",))
    hooks = controller(8_192, summarizer=Scripted(), host_files=lambda: tracked)
    record = hooks.compact_sync(fits()).record
    assert record is not None
    assert (record.read_files, record.modified_files) == (("docs/plan.md",), ("src/core.py",))


@pytest.mark.parametrize(
    ("last", "is_told"),
    [
        pytest.param([user("and now?")], False, id="a user message asks already"),
        pytest.param(step(99, 20), True, id="a tool result is last"),
    ],
)
def test_a_continuation_line_only_where_no_user_message_follows(last: list[Chat], is_told: bool) -> None:
    messages = [*talk(14), user("go on"), *step(98, 20), *last]
    with_line = controller(8_192, summarizer=Scripted()).compact_sync(messages, keep_recent_tokens=100)
    off = CompactionSettings(add_continuation=False)
    without = controller(8_192, summarizer=Scripted(), settings=off).compact_sync(messages, keep_recent_tokens=100)
    assert with_line.record is not None
    assert without.record is not None
    assert (with_line.record.rendered != without.record.rendered) is is_told


def test_the_default_needs_no_model() -> None:
    view = controller(8_192, settings=PLAIN).transform_context_sync(LONG)
    assert "Port the parser." in texts(view)
    assert "src/module_3.py" in texts(view)


def test_the_default_summary_stays_bounded_over_ten_compactions() -> None:
    hooks = controller(8_192, summarizer=ExtractiveSummarizer(), settings=PLAIN)
    messages: list[Chat] = [system(), user("go")]
    sizes = []
    for round in range(10):
        messages = [*messages, *steps(14, 300, first=14 * round)]
        record = hooks.compact_sync(messages, keep_recent_tokens=500).record
        assert record is not None
        sizes.append(len(record.rendered))
    assert max(sizes) < 8_192 * 0.1 * 5


def test_images_are_placeholders_for_the_summariser() -> None:
    picture: Chat = {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 400}},
        ],
    }
    asked = Scripted()
    controller(8_192, summarizer=asked).compact_sync([picture, assistant("a cat"), *talk(12)], keep_recent_tokens=500)
    assert "iVBORw0KGgo" not in asked.requests[0].prompt
    assert "image" in asked.requests[0].transcript


async def test_abort_cancels_the_summariser_and_hands_out_the_uncompacted_list() -> None:
    """No error, and the summarizer is really cancelled."""
    signal, started, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(request: SummaryRequest) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    events: list[CompactionEvent] = []
    messages = fits()
    hooks = controller(8_192, summarizer=slow, events=events)
    task = asyncio.create_task(hooks.transform_context(messages, signal))
    await started.wait()
    signal.set()
    assert await task is messages
    await asyncio.wait_for(cancelled.wait(), 5)
    assert isinstance(events[-1], CompactionSkipped)
    assert events[-1].why == "aborted"
    assert hooks.state().breaker == "closed"


async def test_a_signal_that_is_set_already_starts_nothing() -> None:
    signal = asyncio.Event()
    signal.set()
    asked, messages = Scripted(), fits()
    assert await controller(8_192, summarizer=asked).transform_context(messages, signal) is messages
    assert asked.requests == []


def test_abort_works_for_sync_callers() -> None:
    signal, release = threading.Event(), threading.Event()

    def slow(request: SummaryRequest) -> str:
        signal.set()
        release.wait(10)
        return "- too late"

    messages = fits()
    started = time.monotonic()
    try:
        assert controller(8_192, summarizer=slow).transform_context_sync(messages, signal) is messages
    finally:
        release.set()
    assert time.monotonic() - started < 5


async def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    """The summarizer is cancelled with it, and the next caller can compact."""
    started = asyncio.Event()
    calls = 0

    async def slow_then_quick(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            started.set()
            await asyncio.Event().wait()
        return "- quick"

    hooks, messages = controller(8_192, summarizer=slow_then_quick), fits()
    task = asyncio.create_task(hooks.transform_context(messages))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "- quick" in texts(await hooks.transform_context(messages))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)], ids=["cancels itself", "exits"])
async def test_a_summariser_that_raises_what_ends_programs_only_fails(error: BaseException) -> None:

    async def later(request: SummaryRequest) -> str:
        raise asyncio.CancelledError

    def now(request: SummaryRequest) -> str:
        raise error

    messages = fits()
    assert controller(8_192, summarizer=now).transform_context_sync(messages) is messages
    assert await controller(8_192, summarizer=now).transform_context(messages) is messages
    assert await controller(8_192, summarizer=later).transform_context(messages) is messages


@pytest.mark.parametrize("fields", [{"text": None}, {"text": 3}, {"text": "- ok", "finish_reason": 3}])
def test_nonsense_inside_a_summary_is_refused(fields: dict[str, object]) -> None:
    messages = fits()
    asked = Scripted(Summary(**fields))  # type: ignore[arg-type]  # wrong on purpose
    assert controller(8_192, summarizer=asked).transform_context_sync(messages) is messages


def test_a_summary_that_is_thrown_away_is_paid_for_all_the_same() -> None:
    """What gained nothing still cost something."""
    events: list[CompactionEvent] = []
    cost = Usage(input_tokens=900, output_tokens=120)
    messages = [
        system(prose(5_600)),
        user("go"),
        assistant("short " + prose(60)),
        user("x"),
        assistant("y"),
        user(prose(600)),
    ]
    asked = Scripted(Summary(text="- facts", usage=cost))
    assert controller(8_192, summarizer=asked, events=events).transform_context_sync(messages) is messages
    assert next(event.usage for event in events if isinstance(event, CompactionSkipped)) == cost


def test_a_signal_that_is_set_stops_a_manual_compaction_too() -> None:
    signal = threading.Event()
    signal.set()
    asked, messages = Scripted(), fits()
    result = controller(8_192, summarizer=asked).compact_sync(messages, signal=signal)
    assert (result.outcome, result.messages is messages, asked.requests) == (CompactionOutcome.ABORTED, True, [])


def test_the_event_of_a_failure_says_when_the_breaker_opened() -> None:
    events: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted(ConnectionError("down")), events=events, clock=Clock())
    for _ in range(3):
        hooks.transform_context_sync(fits())
    opened = [event.is_breaker_open for event in events if isinstance(event, CompactionFailed)]
    assert opened == [False, False, True]


def test_results_that_the_view_hid_already_are_named_in_the_digest() -> None:
    hooks = controller(16_384, summarizer=Scripted("summary"))
    messages = [user("go"), *steps(24, result_tokens=500)]
    hooks.transform_context_sync(messages)
    (cleared,) = hooks.session("default").export_records()
    assert cleared["reductions"]
    assert not cleared["rendered"]
    longer = [*messages, *steps(24, result_tokens=500, first=24)]
    settings = CompactionSettings(clear_tool_results=False)
    other = controller(16_384, summarizer=Scripted("summary"), settings=settings)
    other.session("default").import_records([cleared])
    record = other.compact_sync(longer).record
    assert record is not None
    hidden = record.digest["hidden"]
    assert isinstance(hidden, list | tuple)
    assert "Old tool result cleared" in str(hidden[0])
    assert "read_file" in str(hidden[0])
