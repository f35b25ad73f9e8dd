"""`summarizer`, of the controller or of one call: when it is asked, and which answers are refused."""

import json
import threading
import time

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionFailed,
    CompactionOutcome,
    CompactionSettings,
    CompactionSkipped,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.strategies import Summarize
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import (
    PLAIN,
    UNFILLED,
    Chat,
    Scripted,
    above_threshold,
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

MESSAGES = [user("go"), *steps(30, 300)]


async def test_the_calls_summarizer_is_asked_if_the_controller_has_none() -> None:
    own = Scripted("- by the conversation's own model")
    hooks = CompactionController(context_window=8_192, settings=PLAIN)
    assert "own model" in texts(await hooks.transform_context(MESSAGES, summarizer=own))
    assert "own model" in texts(hooks.session("sync").transform_context_sync(MESSAGES, summarizer=own))


def test_the_controllers_summarizer_comes_before_the_calls() -> None:
    theirs, own = Scripted(), Scripted()
    hooks = controller(8_192, summarizer=theirs, settings=PLAIN)
    hooks.transform_context_sync(MESSAGES, summarizer=own)
    assert theirs.requests
    assert not own.requests


def test_the_second_summary_updates_the_first() -> None:
    asked = Scripted("- one", "- two")
    hooks = controller(8_192, summarizer=asked, settings=UNFILLED)
    messages: list[Chat] = [system()]
    while len(asked.requests) < 2:
        messages = [*messages, *talk(1, first=len(messages))]
        hooks.transform_context_sync(messages)
    first, second = asked.requests
    assert (first.kind, first.previous_summary) == ("history", None)
    assert (second.kind, second.previous_summary) == ("update", "- one")
    again = {m for m in second.messages if m.text in {m.text for m in first.messages}}
    assert {m.role for m in again} == {"user"}, "only what stayed until now is read again"
    record = hooks.session("default").export_records()[-1]
    assert (record["summary"], record["previous_summary"], record["compaction_count"]) == ("- two", "- one", 2)


def test_a_turn_that_is_cut_in_two_is_summarized_in_the_same_request_as_the_turns_before_it() -> None:
    asked = Scripted("- both")
    messages = [*talk(4), user("Now port it."), *steps(10, 200)]
    controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=500, focus="the schema")
    (request,) = asked.requests
    assert "the schema" in request.prompt
    assert "module_0.py" in request.transcript
    assert messages[0]["content"][:20] in request.transcript


def test_an_earlier_summary_is_carried_on_when_only_a_turns_beginning_is_new() -> None:
    asked = Scripted("- the first facts", "- both")
    hooks = controller(8_192, summarizer=asked, settings=UNFILLED)
    messages = [*talk(12), user("port it")]
    hooks.compact_sync(messages, keep_recent_tokens=1)
    record = hooks.compact_sync([*messages, *steps(12, 300)], keep_recent_tokens=500).record
    assert [request.kind for request in asked.requests] == ["history", "update"]
    assert asked.requests[1].previous_summary == "- the first facts"
    assert record is not None
    assert record.summary.startswith("- both")


def test_a_summarizer_that_overflows_on_next_to_nothing_counts_as_failed() -> None:
    asked = Scripted(ValueError("This model's maximum context length is 20 tokens, however you requested 5000 tokens"))
    messages = [user("hi"), assistant("ok"), user("next")]
    result = controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=0)
    assert result.outcome is CompactionOutcome.FAILED
    assert [request.transcript for request in asked.requests] == ["[User]: hi\n\n[Assistant]: ok", "[User]: hi"]


def test_a_refused_answer_is_paid_for_all_the_same() -> None:
    events: list[CompactionEvent] = []
    cost = Usage(input_tokens=900, output_tokens=120)
    asked = Scripted(Summary(text="- half", usage=cost, finish_reason="length"))
    controller(8_192, summarizer=asked, events=events).transform_context_sync(above_threshold())
    assert next(event.usage for event in events if isinstance(event, CompactionFailed)) == cost


def test_file_lists_are_appended_by_code_and_cumulative() -> None:
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
    assert with_line.record is not None
    for settings, has_line in (
        (CompactionSettings(strategies=[Summarize()]), is_told),
        (CompactionSettings(add_continuation=False), False),
    ):
        result = controller(8_192, summarizer=Scripted(), settings=settings).compact_sync(
            messages, keep_recent_tokens=100
        )
        assert result.record is not None
        assert (result.record.rendered == with_line.record.rendered) == (has_line == is_told)


def test_a_summary_that_is_thrown_away_is_paid_for_all_the_same() -> None:
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


def test_results_that_the_view_hid_already_are_named_in_the_digest() -> None:
    hooks = controller(16_384, summarizer=Scripted("summary"))
    messages = [user("go"), *steps(24, result_tokens=500)]
    hooks.transform_context_sync(messages)
    (cleared,) = hooks.session("default").export_records()
    reductions = cleared["reductions"]
    assert isinstance(reductions, list)
    assert reductions
    assert not cleared["rendered"]
    longer = [*messages, *steps(24, result_tokens=500, first=24)]
    other = controller(16_384, summarizer=Scripted("summary"), settings=PLAIN)
    other.session("default").import_records([cleared])
    record = other.compact_sync(longer).record
    assert record is not None
    hidden = record.digest["hidden"]
    assert isinstance(hidden, list | tuple)
    assert "Old tool result cleared" in str(hidden[0])
    assert "read_file" in str(hidden[0])
    assert len(hidden) == len(reductions)


REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I cannot continue with this request. If you have other questions, feel free to ask!",
    "抱歉，我无法协助处理该请求。",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_model_that_refuses_to_summarize_has_written_no_summary(text: str) -> None:
    def model(request: SummaryRequest) -> str:
        assert "Use exactly these headings" in request.prompt
        return text

    events: list[CompactionEvent] = []
    hooks = CompactionController(context_window=8_192, summarizer=model, on_event=events.append)
    messages = talk(15)
    assert hooks.transform_context_sync(messages) is messages
    failed = next(event for event in events if isinstance(event, CompactionFailed))
    assert "none of the headings" in failed.error
    assert text not in failed.error


@pytest.mark.parametrize(
    ("text", "is_our_prompt"),
    [
        pytest.param("- ported the parser", True, id="a list"),
        pytest.param("**Goal**: port it.", True, id="a heading of its own"),
        pytest.param("The parser was ported. " * 30, True, id="a long text"),
        pytest.param("The parser was ported.", False, id="the host's own prompt"),
    ],
)
def test_a_short_summary_in_another_form_is_used(text: str, is_our_prompt: bool) -> None:
    def model(request: SummaryRequest) -> str:
        assert request.prompt if is_our_prompt else request.transcript
        return text

    hooks = CompactionController(context_window=8_192, summarizer=model)
    assert text.strip() in texts(hooks.transform_context_sync(talk(15)))


class Text(str):
    """A text of a framework's own type, such as `answer.text` of LangChain."""

    __slots__ = ()


@pytest.mark.parametrize(
    "answer", [Text("## Goal\n- port it"), Summary(text=Text("## Goal\n- port it"))], ids=["text", "Summary"]
)
def test_a_text_of_a_subclass_of_str_is_a_summary(answer: Text | Summary) -> None:
    session = CompactionController(context_window=8_192, summarizer=lambda _: answer).session("a")
    session.transform_context_sync(talk(15))
    (record,) = session.export_records()
    assert type(record["summary"]) is str
    assert str(record["summary"]).startswith("## Goal\n- port it\n")


class Watched(CharacterEstimator):
    """Notes in which threads summaries are estimated, and the longest text it was asked about."""

    def __init__(self) -> None:
        object.__setattr__(self, "threads", set[int]())
        object.__setattr__(self, "lengths", [0])

    threads: set[int]
    lengths: list[int]

    def estimate_tokens(self, text: str, /) -> int:
        self.lengths.append(len(text))
        if text.startswith("## Goal"):
            self.threads.add(threading.get_ident())
        return super().estimate_tokens(text)


async def test_a_summary_is_judged_outside_the_event_loop() -> None:
    estimator = Watched()
    hooks = CompactionController(context_window=8_192, summarizer=lambda _: "## Goal\n- go on", estimator=estimator)
    assert "go on" in texts(await hooks.transform_context(talk(15)))
    assert estimator.threads
    assert threading.get_ident() not in estimator.threads


async def test_a_summary_of_ten_megabytes_is_refused_by_its_length_alone() -> None:
    estimator, events = Watched(), list[CompactionEvent]()
    answer = "## Goal\n" + "- went on\n" * 1_000_000
    hooks = CompactionController(
        context_window=8_192, summarizer=lambda _: answer, estimator=estimator, on_event=events.append
    )
    await hooks.transform_context(talk(15))
    assert max(estimator.lengths) < 100_000
    assert any(isinstance(event, CompactionFailed) and "10,000,008 characters" in event.error for event in events)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["rows", "text", "command"])
async def test_an_argument_of_megabytes_takes_no_longer_than_a_few_times_to_read_it(kind: str) -> None:
    """It took minutes to summarize, and its length is no reason: of 100 times as much not more is said."""
    rows = [{"id": n, "name": f"item {n}", "path": f"src/m_{n}.py"} for n in range(60_000)]
    argument: object = {
        "rows": rows,
        "text": json.dumps(rows),
        "command": "cat <<'E' > a.py\nE\n; rm -rf x; " * 90_000,
    }[kind]
    messages = [
        user("go"),
        assistant(
            "Writing.", call("big", "run", path="out/rows.json", **{"rows" if kind == "rows" else "command": argument})
        ),
        tool("big", "ok"),
        *steps(20, 400),
        user("next"),
    ]
    text = json.dumps(argument)
    start = time.process_time()
    json.loads(text)
    reading = time.process_time() - start
    start = time.process_time()
    view = await CompactionController(context_window=16_000).transform_context(messages)
    assert time.process_time() - start < 20 * reading + 1
    assert len(texts(view)) < 100_000
    assert "out/rows.json" in texts(view)
