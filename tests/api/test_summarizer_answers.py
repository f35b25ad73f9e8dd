"""`CompactionController(summarizer=...)`: which answers are refused, and that no huge text holds the event loop."""

import json
import threading
import time

import pytest

from compaction_hooks import CompactionController, CompactionFailed, Summary, SummaryRequest
from compaction_hooks.events import CompactionEvent
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import assistant, call, steps, talk, texts, tool, user

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
    assert (record["summary"], type(record["summary"])) == ("## Goal\n- port it", str)


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


@pytest.mark.parametrize("kind", ["rows", pytest.param("text", marks=pytest.mark.full), "command"])
async def test_an_argument_of_ten_megabytes_takes_no_longer_than_a_few_times_to_read_it(kind: str) -> None:
    """It took minutes to summarize, and its length is no reason: of 100 times as much not more is said."""
    rows = [{"id": n, "name": f"item {n}", "path": f"src/m_{n}.py"} for n in range(200_000)]
    argument: object = {
        "rows": rows,
        "text": json.dumps(rows),
        "command": "cat <<'E' > a.py\nE\n; rm -rf x; " * 300_000,
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
