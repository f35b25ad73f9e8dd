"""What LangChain's own summarisation, context editing, deep agents, langmem and `trim_messages` get wrong, and this does not.

The numbers are those of the project's list of observed defects; each test is named after one and its docstring tells what was seen
elsewhere. Not here: 18 (a summary request that reads the agent's own prompt cache) is no aim of this library, and the second
half of 19 (checkpoints hold all messages) is the message channel's.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, TypedDict, cast

import pytest

pytest.importorskip("langchain_openai")

from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat, ModelContextOverflowError
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionFinished, CompactionSettings, Summary, SummaryRequest
from compaction_hooks.events import CompactionEvent
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    file_tool,
    heavy_tool,
    listing,
    reads,
    spoken,
    texts,
    thread,
    tool_steps,
)
from tests.adapters.langchain_stage import (
    QUESTION,
    Answering,
    agent_of,
    ask,
    assert_no_orphans,
    calls_of,
    result_of,
    summaries_in,
    tokens_of,
    view_of,
)
from tests.provider import Answer, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

NO_CLEARING = CompactionSettings(clear_tool_results=False)
UNAVAILABLE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})


# -- SummarizationMiddleware


def test_01_the_summariser_sees_the_first_message_and_the_previous_summary(stage: Stage) -> None:
    """It was shown 6 of 58 evicted turns, never the goal, and not what it had written before."""
    stage.side()
    summarizer = CountingSummarizer()
    agent = agent_of(stage, summarizer=summarizer)
    agent.invoke({"messages": [HumanMessage("The goal is a ledger without gaps."), *spoken(7)]}, thread())
    agent.invoke({"messages": spoken(5, first=7)}, thread())
    first, second = summarizer.asked
    assert "The goal is a ledger without gaps." in first.prompt
    assert all(f"Question {turn}." in first.prompt for turn in range(4))
    assert second.previous_summary is not None
    assert SECRET in second.previous_summary
    assert second.previous_summary in second.prompt


def test_02_a_long_tool_loop_after_one_request_is_summarised_by_a_model(stage: Stage) -> None:
    """The summary was "Previous conversation was too long to summarize.", without a model call."""
    side = stage.side()
    agent = agent_of(stage, settings=NO_CLEARING)
    agent.invoke({"messages": tool_steps(20)}, thread())
    assert summaries_in(side) == 1
    sent = texts(side.model_requests[0].messages)
    assert SECRET in sent
    assert "Go through all files." in sent


def test_03_a_huge_result_among_the_kept_messages_does_not_thrash(stage: Stage) -> None:
    """There was a summary call before each of three calls, and nothing was gained."""
    side = stage.side(*[Answer(f"Step {step}.") for step in range(4)])
    events: list[CompactionEvent] = []
    agent = agent_of(stage, settings=CompactionSettings(trigger_tokens=4_000), on_event=events.append)
    agent.invoke({"messages": [*tool_steps(1, lines=700), AIMessage("Read."), HumanMessage("Step 0?")]}, thread())
    for step in range(1, 4):
        agent.invoke({"messages": [HumanMessage(f"Step {step}?")]}, thread())
    assert summaries_in(side) <= 1
    assert [type(event).__name__ for event in events] == ["CompactionStarted", "CompactionFinished"]
    assert all(request.input_tokens < 4_000 for request in side.model_requests)


@pytest.mark.parametrize("first", [pytest.param([ask()], id="request"), pytest.param([], id="no request")])
def test_04_ten_parallel_results_are_made_to_fit_and_the_request_stays(stage: Stage, first: list[BaseMessage]) -> None:
    """50,287 tokens became 50,275, and what got summarised was the request; without one nothing happened."""
    ids = [f"call_{number}" for number in range(10)]
    view = view_of(stage, [*first, calls_of(*ids), *map(result_of, ids)])
    assert tokens_of(view) < WINDOW
    assert [message.text for message in view if message is not view[-1] and isinstance(message, HumanMessage)][-1:] == [
        message.text for message in first
    ]
    assert_no_orphans(view)


def test_04_a_request_that_is_too_large_by_itself_is_named(stage: Stage) -> None:
    """It was a silent no-op."""
    stage.side()
    with pytest.raises(ModelContextOverflowError, match="current request") as caught:
        agent_of(stage).invoke({"messages": [*spoken(2), HumanMessage("Consider this. " * 8_000)]}, thread())
    assert caught.value.part == "current request"


def test_05_system_prompt_and_tools_count_and_an_overflow_is_recovered(stage: Stage) -> None:
    """2,105 of 8,596 tokens were seen, and the provider's overflow ended the turn."""
    side = stage.side()
    events: list[CompactionEvent] = []
    agent: Any = create_agent(
        stage.openai(),
        [heavy_tool(8_000)],
        system_prompt="Be careful. " * 700,
        middleware=[CompactionMiddleware(on_event=events.append)],
    )
    agent.invoke({"messages": [*spoken(4), ask()]})
    assert isinstance(events[-1], CompactionFinished)
    side.reject_next = 1
    agent.invoke({"messages": [*spoken(2), ask()]})
    assert [request.status for request in side.model_requests] == [200, 400, 200]


def test_06_while_no_summary_can_be_had_every_turn_goes_on(stage: Stage) -> None:
    """Three attempts per turn, and the turn died; the model was never called."""
    side = stage.side()
    side.fail_summaries = True
    agent = agent_of(stage)
    for turn in range(8):
        result = agent.invoke({"messages": spoken(6, first=6 * turn)[:-1]}, thread())
        assert result["messages"][-1].text == "Done."
    assert len(side.model_requests) == 8
    assert side.rejections == [request for request in side.requests if request.is_summary]
    assert summaries_in(side) == 3  # then the circuit breaker is open


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Summary(text=""), id="empty"),
        pytest.param(Summary(text="<think>Let me see.</think>"), id="only reasoning"),
        pytest.param(Summary(text=f"## Goal\n- {SECRET}", finish_reason="length"), id="cut off"),
    ],
)
def test_07_a_summary_that_says_nothing_or_was_cut_off_is_refused(stage: Stage, answer: Summary) -> None:
    """It took the place of the history: "Here is a summary:" and nothing."""
    view = view_of(stage, [*spoken(30), ask()], summarizer=lambda _: answer)
    assert SECRET not in texts(view)
    assert "Question 0." in view[0].text  # what can be extracted without a model
    assert view[-1].text == QUESTION


def test_08_a_summariser_that_overflows_does_not_end_the_turn(stage: Stage) -> None:
    """One retry at half the size, then an error; an unclassified one was sent three times as it was."""
    asked: list[SummaryRequest] = []

    def overflowing(request: SummaryRequest) -> str:
        asked.append(request)
        if len(request.prompt) > 8_000:
            raise RuntimeError("the request exceeds the available context size")
        return f"## Goal\n- {SECRET}"

    view = view_of(stage, [*spoken(30), ask()], summarizer=overflowing)
    sizes = [len(request.prompt) for request in asked]
    assert sizes == sorted(set(sizes), reverse=True)
    assert view[-1].text == QUESTION
    assert tokens_of(view) < WINDOW


def test_09_usage_from_before_a_compaction_does_not_trigger_another(stage: Stage) -> None:
    """After a failing call the next three compacted again, down to a summary of summaries."""
    side = stage.side(UNAVAILABLE, *[Answer(f"Answer {number}.") for number in range(3)])
    summarizer = CountingSummarizer()
    agent = agent_of(stage, summarizer=summarizer)
    talk = spoken(30)
    talk[-1].usage_metadata = {"input_tokens": 15_000, "output_tokens": 500, "total_tokens": 15_500}  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="overloaded"):
        agent.invoke({"messages": [*talk, ask()]}, thread())
    for _ in range(3):
        agent.invoke({"messages": [HumanMessage("Go on.")]}, thread())
    assert len(summarizer.asked) == 1
    assert side.remaining == 0


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param([calls_of("A", "B"), result_of("A"), HumanMessage("Hurry."), result_of("B")], id="human between"),
        pytest.param([calls_of("A"), calls_of("B"), result_of("B"), result_of("A")], id="mixed"),
        pytest.param([calls_of("A", "B"), result_of("B"), result_of("A"), AIMessage("So."), ask()], id="other order"),
    ],
)
@pytest.mark.parametrize("keep", [200, 1_500, 4_000])
def test_10_no_result_is_kept_without_its_call(stage: Stage, tail: list[BaseMessage], keep: int) -> None:
    """The kept window began with an orphaned result, which providers refuse."""
    view = view_of(stage, [*spoken(20), *tail], keep=("tokens", keep), settings=NO_CLEARING)
    assert SECRET in texts(view)
    assert_no_orphans(view)


def test_11_the_kind_of_the_message_channel_does_not_matter(stage: Stage) -> None:
    """With a `DeltaChannel` nothing was removed and the summary came after the question, one more per turn."""
    channels = pytest.importorskip("langgraph.channels.delta")
    reducer = pytest.importorskip("langgraph.pregel._messages")._messages_delta_reducer

    # Made of objects, since names of this function cannot be resolved.
    state = TypedDict("state", {"messages": Annotated[list[Any], channels.DeltaChannel(reducer)]})  # noqa: UP013
    answering = Answering()
    middleware = [CompactionMiddleware(summarizer=CountingSummarizer()), answering]
    agent: Any = create_agent(
        stage.openai(), middleware=middleware, state_schema=cast("Any", state), checkpointer=InMemorySaver()
    )
    for _ in range(2):
        agent.invoke({"messages": [*spoken(20), ask()]}, thread())
    for view in answering.views:
        assert [SECRET in message.text for message in view].index(True) == 0
        assert view[-1].text == QUESTION
    assert len(agent.get_state(thread()).values["messages"]) == 84


def test_12_system_messages_stay_braces_are_text_and_the_default_triggers(stage: Stage) -> None:
    """System messages were summarised away, braces raised a KeyError, and the default never triggered."""
    rule = SystemMessage("Never touch {ledger} or {messages}.")
    view = view_of(stage, [rule, *spoken(15), HumanMessage("What of {this}?"), *spoken(15), ask()])
    assert view[0] == rule
    assert SECRET in view[1].text


def test_13_nothing_of_a_summary_is_streamed_and_its_events_are(stage: Stage) -> None:
    """Tokens of summaries were among the answer's, and no event told why it took so long."""
    stage.side()
    items = list(
        agent_of(stage).stream({"messages": [*spoken(30), ask()]}, thread(), stream_mode=["messages", "custom"])
    )
    said = "".join(item[0].text for mode, item in items if mode == "messages")
    assert said == "Done."
    assert [item["status"] for mode, item in items if mode == "custom"] == ["started", "finished"]


def test_14_dense_text_is_not_counted_low(stage: Stage) -> None:
    """4,140 tokens were counted as 1,294, and a trigger of 6,000 did not fire at 12,000."""
    side = stage.side()
    agent = agent_of(stage)
    for turn in range(24):
        agent.invoke({"messages": [HumanMessage(f"{turn}账簿中的每一张凭证都必须核对三次以上。" * 60)]}, thread())
    assert side.rejections == []
    assert summaries_in(side) >= 1


def test_15_a_fraction_is_of_the_window_of_the_model_that_is_called(stage: Stage) -> None:
    """With a cheap summariser of 200k beside an agent of 8k it never fired."""
    own, cheap = stage.side(), stage.side(key="cheap")
    agent_of(stage, model=stage.openai(200_000, key="cheap"), trigger=("fraction", 0.8)).invoke(
        {"messages": [*spoken(30), ask()]}, thread()
    )
    assert (own.rejections, summaries_in(own), summaries_in(cheap)) == ([], 0, 1)


def test_16_media_is_told_to_the_summariser_and_not_counted_as_text(stage: Stage) -> None:
    """A file of 200 kB counted 50,020 tokens, arguments beside list content 6, and images were left out of the prompt."""
    pdf = {"type": "file", "base64": base64.b64encode(b"%PDF" * 50_000).decode(), "mime_type": "application/pdf"}
    image = {"type": "image", "url": "https://example.com/voucher.png"}
    summarizer = CountingSummarizer()
    seen = HumanMessage([{"type": "text", "text": "See the scan."}, image, pdf])
    assert view_of(stage, [seen, ask()], summarizer=summarizer)[0] is not None
    assert summarizer.asked == []
    call = {"name": "write_file", "args": {"text": listing("a.py", 1_200)}, "id": "call_0", "type": "tool_call"}
    wide = AIMessage([{"type": "text", "text": "I write."}], tool_calls=[call])
    view_of(stage, [seen, wide, result_of("call_0", "written"), *spoken(2), ask()], summarizer=summarizer)
    (request,) = summarizer.asked
    assert "image" in request.transcript
    assert "application/pdf" in request.transcript
    assert "JVBER" not in request.transcript


def test_17_a_compacted_view_is_not_replaced_by_the_history_the_provider_keeps(stage: Stage) -> None:
    """With `use_previous_response_id` the summary was never sent, and the whole history was still in use."""
    model, answering = stage.openai(use_previous_response_id=True), Answering()
    talk = spoken(30)
    for number, message in enumerate(talk):
        if isinstance(message, AIMessage):
            message.response_metadata["id"] = f"resp_{number}"
    agent: Any = create_agent(model, middleware=[CompactionMiddleware(summarizer=CountingSummarizer()), answering])
    agent.invoke({"messages": [*talk[:4], ask()]})
    agent.invoke({"messages": [*talk, ask()]})
    whole, compacted = (model._get_request_payload(view) for view in answering.views)
    assert whole["previous_response_id"] == "resp_3"
    assert "previous_response_id" not in compacted
    assert SECRET in json.dumps(compacted["input"])
    assert talk[-1].response_metadata["id"] == "resp_59"


def test_19_a_call_reads_what_is_new(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call counted every message: 19 ms of 20,000."""
    stage.side(*[reads(f"{step}.py") for step in range(5)], window=100 * WINDOW)
    read, per_call = LangChainFormat.read, [0]
    monkeypatch.setattr(LangChainFormat, "read", lambda self, message: _counted(per_call, read(self, message)))

    class Counting(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            per_call.append(0)
            return handler(request)

    agent = agent_of(stage, Counting(), tools=[file_tool(2)], context_window=100 * WINDOW)
    agent.invoke({"messages": [*spoken(100, chars=40), HumanMessage("Read.")]}, thread())
    first, *later = per_call[:-1]
    assert first >= 201
    assert max(later) <= 6


def _counted(per_call: list[int], value: Any) -> Any:
    per_call[-1] += 1
    return value
