"""Summaries by LangChain's models, of agents with the middleware and of graphs with the node: asked in place, at the end of the
conversation, and in the background, while it goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware, in_place, summarizer
from compaction_adapters.langgraph import CompactionNode
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from tests.adapters.langchain_core_stage import Stage, either_way, said, say, thread
from tests.adapters.langgraph_stage import ModelInput, calls
from tests.background_scene import check_background, check_end_of_loop
from tests.cases import sampled, sampled_rows
from tests.in_place_scene import PAGES, REQUEST, SETTINGS, WINDOW, Reader, check_in_place, read_page
from tests.provider import Answer, Call, Received

CONFIG: Any = {**thread(), "recursion_limit": 500}
SYSTEM = "You read."
KEYWORDS: Any = {"context_window": WINDOW, "settings": SETTINGS}
read = tool(read_page)


async def check(stage: Stage, graph: Any, how: str, *, has_answer: bool = True) -> list[Received]:
    """Run the scene; return the requests."""
    side = stage.side()
    await check_in_place(side, lambda: say(graph, REQUEST, how, CONFIG), has_answer=has_answer)
    return side.requests


def agent(
    model: Any,
    written: Any,
    inside: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    *,
    background: bool = False,
    **options: Any,
) -> Any:
    middleware = [CompactionMiddleware(summarizer=written, background=background, **KEYWORDS), *inside]
    saver = InMemorySaver()
    return create_agent(model, [read], system_prompt=SYSTEM, middleware=middleware, checkpointer=saver, **options)


@pytest.mark.parametrize(
    ("client", "how", "has_answer"),
    sampled_rows(
        [
            ("openai", "sync", True),
            ("openai", "async", False),
            ("openai", "streamed", True),
            ("anthropic", "async", True),
            ("anthropic", "sync", False),
        ],
        1,
    ),
)
async def test_the_middleware_asks_by_the_list_of_the_call(
    stage: Stage, client: str, how: str, has_answer: bool
) -> None:
    model = getattr(stage, client)(WINDOW, temperature=0.5, stream_usage=True)
    await check(stage, agent(model, in_place(model)), how, has_answer=has_answer)


async def test_what_middleware_inside_adds_is_sent_again(stage: Stage) -> None:
    """The marks of Anthropic's caches: without them nothing would be read from one."""
    model = stage.anthropic(WINDOW)
    requests = await check(stage, agent(model, in_place(model), [AnthropicPromptCachingMiddleware()]), "async")
    asked = next(request for request in requests if request.is_in_place)
    for marked in (asked.body, asked.body["system"][-1], asked.tools[-1]):
        assert marked["cache_control"]
    assert asked.max_tokens > 8_192


@either_way
async def test_a_wrapped_model_is_asked_by_the_list_of_the_call(stage: Stage, how: str) -> None:
    model = stage.openai(WINDOW)
    compact = CompactionNode(summarizer=in_place(model), **KEYWORDS)
    bound: Any = compact.wrap(model).bind_tools([read], parallel_tool_calls=False)
    await check(stage, reading_graph(compact, calls(bound, before=[SystemMessage(SYSTEM)])), how)


async def test_the_model_of_a_node_is_asked_with_its_tools(stage: Stage) -> None:
    model = stage.openai(WINDOW)
    bound = model.bind_tools([read])
    compact = CompactionNode(model=bound, system=SYSTEM, summarizer=in_place(model), **KEYWORDS)
    node = calls(bound, "llm_input_messages", before=[SystemMessage(SYSTEM)])
    await check(stage, reading_graph(compact, node, ModelInput), "async")


def reading_graph(compact: CompactionNode, model: Any, model_input: Any = MessagesState) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("compact", compact)
    builder.add_node("model", model, input_schema=model_input)
    builder.add_node("tools", ToolNode([read]))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    return builder.add_conditional_edges("model", tools_condition).compile(checkpointer=InMemorySaver())


class Ending(BaseModel):
    """The end."""

    text: str


class Hurry(AgentMiddleware[Any, Any, Any]):
    """Changes the messages that are sent."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        return await handler(request.override(messages=[*request.messages, SystemMessage("Hurry.")]))


@pytest.mark.parametrize(
    "why", sampled(["an answer's form", "another model", "changed messages", "tools of nowhere"], 1)
)
async def test_a_transcript_is_asked_for_where_the_call_cannot_be_repeated(stage: Stage, why: str) -> None:
    model = stage.openai(WINDOW)
    if why == "an answer's form":
        graph = agent(model, in_place(model), response_format=ToolStrategy(Ending))
    elif why == "another model":
        graph = agent(model, in_place(stage.openai(WINDOW, model="other")))
    elif why == "changed messages":
        graph = agent(model, in_place(model), [Hurry()])
    else:
        compact = CompactionNode(model=model, tools=[read], summarizer=in_place(model), **KEYWORDS)
        graph = reading_graph(compact, calls(model.bind_tools([read]), "llm_input_messages"), ModelInput)

    side, reader = stage.side(), Reader()

    def think(received: Received) -> Answer:
        is_over = reader.pages == PAGES and why == "an answer's form"
        return Answer(calls=(Call("Ending", {"text": "Done."}),)) if is_over else reader(received)

    side.think, side.window = think, WINDOW
    await graph.ainvoke(said(REQUEST), CONFIG)
    kinds = [request.is_in_place for request in side.requests if request.is_summary]
    assert len(kinds) >= 2
    assert not any(kinds)
    assert not side.rejections


# -- in the background


class Watch(BaseCallbackHandler):
    """Counts the calls of models that a run's callbacks and traces see."""

    run_inline = True

    def __init__(self) -> None:
        self.calls = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.calls += 1


async def check_detached(stage: Stage, graph: Any, how: str) -> None:
    """Check that no call waits for a summary, and that its run is none of the call's."""
    side, watch = stage.side(), Watch()
    config = {**CONFIG, "callbacks": [watch]}

    async def ask() -> str:
        if how == "async":
            return await say(graph, REQUEST, how, config)
        return await asyncio.to_thread(lambda: str(graph.invoke(said(REQUEST), config)["messages"][-1].text))

    await check_background(side, ask)
    assert watch.calls == len(side.model_requests)


@pytest.mark.parametrize(
    ("how", "write"), sampled_rows([("async", in_place), ("sync", summarizer), ("async", summarizer)], 1)
)
async def test_no_call_of_an_agent_waits_for_a_summary_in_the_background(stage: Stage, how: str, write: Any) -> None:
    model = stage.openai(WINDOW)
    await check_detached(stage, agent(model, write(model), background=True), how)


@either_way
async def test_no_step_of_a_graph_waits_for_a_summary_in_the_background(stage: Stage, how: str) -> None:
    model = stage.openai(WINDOW)
    bound = model.bind_tools([read])
    compact = CompactionNode(model=bound, system=SYSTEM, summarizer=summarizer(model), background=True, **KEYWORDS)
    node = calls(bound, "llm_input_messages", before=[SystemMessage(SYSTEM)])
    await check_detached(stage, reading_graph(compact, node, ModelInput), how)


def test_an_event_loop_ends_while_a_summary_is_under_way(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    # A connection that is kept would be closed with the stage, when its event loop is no more.
    model = stage.openai(WINDOW, default_headers={"Connection": "close"})
    graph = agent(model, summarizer(model), background=True)
    check_end_of_loop(stage.side(), lambda: say(graph, REQUEST, "async", CONFIG), caplog)
