"""What a user who streams an agent sees: the answer, status events, and nothing of a summary."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

pytest.importorskip("langchain_openai")

import openai
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel import Pregel

from compaction_hooks import SummaryRequest, Usage
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    file_tool,
    kinds_of,
    reads,
    spoken,
    texts,
    thread,
)
from tests.cases import crossed
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

INTERNAL = "langchain.agents.middleware.internal_call_transformer"
ANSWER = "The answer has several words, so that it comes in more than one chunk of the stream."
LONG = {"messages": [*spoken(30), HumanMessage("And now?")]}
SHORT = {"messages": spoken(4)}

both_ways = pytest.mark.parametrize("how", ["sync", "async"])
beta = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
has_v3 = pytest.mark.skipif(not hasattr(Pregel, "stream_events"), reason="this version has no v3")
ways_and_clients = crossed(how=["sync", "async"], client=["openai", "anthropic"])


async def streamed(agent: Any, messages: Any, how: str, mode: Any = "messages", **options: Any) -> list[Any]:
    if how == "sync":
        return list(agent.stream(messages, thread(), stream_mode=mode, **options))
    return [item async for item in agent.astream(messages, thread(), stream_mode=mode, **options)]


def shown(items: list[Any]) -> str:
    return "".join(chunk.text for chunk, _ in items)


# -- nothing of a summary


@ways_and_clients
async def test_the_answer_is_streamed_and_nothing_of_the_summary(stage: Stage, how: str, client: str) -> None:
    side = stage.side(Answer(ANSWER))
    agent = create_agent(getattr(stage, client)(), middleware=[CompactionMiddleware()])
    items = await streamed(agent, LONG, how)
    assert shown(items) == ANSWER
    assert len([chunk for chunk, _ in items if chunk.text]) > 1
    assert kinds_of(side.requests) == [True, False]


@beta
@has_v3
async def test_nothing_of_the_summary_is_among_the_events_of_version_3(stage: Stage) -> None:
    side = stage.side(Answer(ANSWER))
    agent: Any = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    run = await agent.astream_events(LONG, thread(), version="v3")
    messages = ["".join([delta async for delta in message.text]) async for message in run.messages]
    assert messages == [ANSWER]
    assert kinds_of(side.requests) == [True, False]


@beta
@has_v3
async def test_nothing_of_a_summariser_of_ones_own_is_among_them_when_it_says_that_it_is_internal(stage: Stage) -> None:
    """As LangChain's own middleware marks its calls."""
    internal_call_metadata = pytest.importorskip(INTERNAL).internal_call_metadata
    stage.side(Answer(ANSWER))
    other = stage.side(Answer(f"## Goal\n- {SECRET}, and all that came before it."), key="own")
    model = stage.openai(key="own")

    async def summarize(request: SummaryRequest) -> str:
        answer = await model.ainvoke("Summarise the ledger.", {"metadata": internal_call_metadata()})
        return str(answer.text)

    agent: Any = create_agent(stage.openai(), middleware=[CompactionMiddleware(summarizer=summarize)])
    run = await agent.astream_events(LONG, thread(), version="v3")
    assert ["".join([delta async for delta in message.text]) async for message in run.messages] == [ANSWER]
    assert other.remaining == 0


async def test_the_summary_call_is_traced_under_its_source(stage: Stage) -> None:
    """Callbacks see it, so that its cost is not hidden."""
    stage.side()
    agent: Any = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    sources = [
        event["metadata"].get("lc_source")
        async for event in agent.astream_events(LONG, thread(), version="v2")
        if event["event"] == "on_chat_model_start"
    ]
    assert (set(sources[:-1]), sources[-1]) == ({"summarization"}, None)


# -- status


@both_ways
async def test_status_events_come_as_plain_dicts_on_the_custom_stream(stage: Stage, how: str) -> None:
    stage.side()
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    started, finished = await streamed(agent, LONG, how, "custom")
    assert (started["type"], started["status"], started["reason"]) == ("compaction", "started", "threshold")
    assert (finished["status"], finished["session_id"]) == ("finished", "thread")
    assert started["context_window"] == WINDOW
    assert started["tokens_before"] > finished["tokens_after"]
    assert SECRET not in json.dumps([started, finished])


async def test_status_events_of_a_subgraph_come_with_its_namespace(stage: Stage) -> None:
    stage.side()
    outer: Any = StateGraph(MessagesState)
    outer.add_node("agent", create_agent(stage.openai(), middleware=[CompactionMiddleware()]))
    outer.add_edge(START, "agent")
    items = await streamed(outer.compile(), LONG, "async", "custom", subgraphs=True)
    assert [(namespace[0].split(":")[0], event["status"]) for namespace, event in items] == [
        ("agent", "started"),
        ("agent", "finished"),
    ]


async def test_one_middleware_tells_each_run_of_its_own_events(stage: Stage) -> None:
    stage.side()
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    await streamed(agent, LONG, "async", "custom")
    assert await streamed(agent, SHORT, "async", "custom") == []


# -- overflow in a stream


@ways_and_clients
async def test_a_stream_that_is_refused_before_its_first_chunk_is_recovered(
    stage: Stage, how: str, client: str
) -> None:
    side = stage.side(Answer(ANSWER))
    agent = create_agent(getattr(stage, client)(10 * WINDOW), middleware=[CompactionMiddleware()])
    assert shown(await streamed(agent, LONG, how)) == ANSWER
    assert [request.status for request in side.model_requests] == [400, 200]
    assert all(request.is_stream for request in side.model_requests)


@both_ways
async def test_a_stream_that_breaks_before_its_first_chunk_is_recovered(stage: Stage, how: str) -> None:
    """The response has begun with status 200, and its first event is the error."""
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = 0
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware()])
    assert shown(await streamed(agent, SHORT, how)) == ANSWER
    assert len(side.model_requests) == 2


@beta
@both_ways
@pytest.mark.parametrize("mode", ["messages", pytest.param("v3", marks=has_v3)])
async def test_a_stream_that_breaks_after_its_first_chunk_surfaces_and_is_not_sent_again(
    stage: Stage, how: str, mode: str
) -> None:
    side = stage.side(Answer(ANSWER))
    side.stream_fail_after = 2
    agent: Any = create_agent(stage.openai(), middleware=[CompactionMiddleware()], checkpointer=InMemorySaver())
    with pytest.raises(openai.APIError, match="maximum context length"):
        await _read_all(agent, SHORT, how, mode)
    assert len(side.requests) == 1
    assert len(agent.get_state(thread()).values["messages"]) == 8


async def _read_all(agent: Any, messages: Any, how: str, mode: str) -> None:
    if mode == "messages":
        await streamed(agent, messages, how)
    elif how == "sync":
        for message in agent.stream_events(messages, thread(), version="v3").messages:
            for _ in message.text:
                pass
    else:
        run = await agent.astream_events(messages, thread(), version="v3")
        async for message in run.messages:
            async for _ in message.text:
                pass


@both_ways
async def test_an_answer_cut_short_is_not_asked_for_again_when_it_was_streamed(stage: Stage, how: str) -> None:
    """The user has seen it. The next call compacts first."""
    cut = Answer(ANSWER, stop="length", usage=Usage(input_tokens=16_000, output_tokens=384))
    side = stage.side(cut)
    agent = create_agent(
        stage.openai(stream_usage=True), middleware=[CompactionMiddleware()], checkpointer=InMemorySaver()
    )
    assert shown(await streamed(agent, SHORT, how)) == ANSWER
    assert len(side.requests) == 1
    await streamed(agent, {"messages": [HumanMessage("Go on.")]}, how)
    assert kinds_of(side.requests) == [False, True, False]


async def test_tokens_of_a_call_that_nobody_sees_do_not_stand_in_the_way_of_recovery(stage: Stage) -> None:
    side = stage.side(Answer(ANSWER))
    side.reject_next = 1
    hidden = _Hidden(stage.openai(key="hidden"))
    other = stage.side(Answer(ANSWER), key="hidden")
    other.stream_fail_after = 2
    agent = create_agent(stage.openai(), middleware=[CompactionMiddleware(), hidden])
    assert shown(await streamed(agent, SHORT, "sync")) == ANSWER
    assert [request.status for request in side.model_requests] == [400, 200]


class _Hidden(AgentMiddleware[Any, Any, Any]):
    """Asks a model of its own out of the user's sight, and goes on when that breaks."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        with contextlib.suppress(openai.APIError):
            self.model.invoke("Which tools?", {"tags": ["nostream"]})
        return handler(request)


async def test_a_long_streamed_run_with_tools_shows_the_answers_only(stage: Stage) -> None:
    answers = [reads(f"src/{step}.py", text=f"Step {step}. ") for step in range(12)]
    side = stage.side(*answers, Answer("All read."))
    summarizer = CountingSummarizer()
    agent = create_agent(stage.openai(), [file_tool(150)], middleware=[CompactionMiddleware(summarizer=summarizer)])
    items = await streamed(agent, {"messages": [*spoken(3), HumanMessage("Read all.")]}, "async")
    said = "".join(chunk.text for chunk, metadata in items if metadata["langgraph_node"] == "model")
    assert said == "".join(f"Step {step}. " for step in range(12)) + "All read."
    assert side.rejections == []
    assert SECRET not in texts([chunk for chunk, _ in items])
