"""A thread that goes on at the model node, the visibility of views and records, several tasks in one step."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from compaction_adapters.langgraph import CompactionState, UntrackedView
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import (
    LONG,
    OUTAGE,
    SECRET,
    CountingSummarizer,
    Stage,
    asked,
    both_ways,
    file_tool,
    is_summary,
    reads,
    records_in,
    run,
    said,
    spoken,
    streamed,
    texts,
    thread,
)
from tests.adapters.langgraph_stage import Model, ModelInput, calls, chat_graph, node_of, react_agent, wrapped_graph
from tests.cases import sampled_rows
from tests.provider import Answer


@asynccontextmanager
async def sqlite(how: str, path: Path) -> AsyncGenerator[Any]:
    file = str(path / "checkpoints.db")
    if how == "sync":
        with SqliteSaver.from_conn_string(file) as saver:
            yield saver
    else:
        async with AsyncSqliteSaver.from_conn_string(file) as saver:
            yield saver


async def fail(graph: Any, how: str) -> Any:
    with pytest.raises(Exception, match="overloaded"):
        await run(graph, LONG, how, thread())


async def stop(graph: Any, how: str) -> Any:
    await run(graph, LONG, how, thread())


async def go_back(graph: Any, how: str) -> Any:
    """Return the checkpoint at which the model node was next, long after."""
    await run(graph, LONG, how, thread())
    await run(graph, said("And then?"), how, thread())
    states = graph.get_state_history if how == "sync" else graph.aget_state_history
    found = [*states(thread())] if how == "sync" else [state async for state in states(thread())]
    return next(
        state.config for state in found if state.next == ("model",) and state.values["messages"][-1].text == "And now?"
    )


@pytest.mark.parametrize(("how", "is_another_process"), sampled_rows([("async", True), ("sync", False)], 1))
@pytest.mark.parametrize(
    ("leave", "answers", "compiled"),
    [
        pytest.param(fail, (OUTAGE, Answer("Resumed.")), {}, id="after a failure"),
        pytest.param(stop, (Answer("Resumed."),), {"interrupt_before": ["model"]}, id="after an interrupt"),
        pytest.param(go_back, (Answer("One."), Answer("Two."), Answer("Resumed.")), {}, id="time travel"),
    ],
)
async def test_a_thread_that_is_resumed_at_the_model_sends_the_view(
    stage: Stage, tmp_path: Path, how: str, is_another_process: bool, leave: Any, answers: Any, compiled: Any
) -> None:
    side, summarizer = stage.side(*answers), CountingSummarizer()

    def start(saver: Any) -> Any:
        before = [SystemMessage("Be brief.")]
        return wrapped_graph(node_of(summarizer), stage.openai(), before=before, checkpointer=saver, **compiled)

    async with sqlite(how, tmp_path) as saver:
        graph = start(saver)
        config = await leave(graph, how)
        result = await run(start(saver) if is_another_process else graph, None, how, config or thread())
    assert result["messages"][-1].text == "Resumed."
    assert len(result["messages"]) == 62
    sent = side.model_requests[-1]
    assert (sent.system, sent.messages[-1]["content"]) == ("Be brief.", "And now?")
    assert SECRET in texts(sent.messages)
    assert len(sent.messages) < 30
    assert len(summarizer.asked) == 1


async def test_words_said_while_a_run_is_interrupted_reach_the_model(stage: Stage) -> None:
    """Also in `create_react_agent`, whose own channel for the view is checkpointed."""
    side, node = stage.side(*[Answer("Yes.")] * 2), node_of()
    saved: Any = {"checkpointer": InMemorySaver(), "interrupt_before": ["agent"]}
    react = react_agent(node.wrap(stage.openai()), [], pre_model_hook=node, **saved)
    plain = wrapped_graph(node_of(), stage.openai(), checkpointer=InMemorySaver(), interrupt_before=["model"])
    for graph in (react, plain):
        graph.invoke(LONG, thread())
        graph.update_state(thread(), said("Wait: in German."))
        await graph.ainvoke(None, thread())
        assert side.model_requests[-1].messages[-1]["content"] == "Wait: in German."
        assert SECRET in texts(side.model_requests[-1].messages)


# -- visibility

HIDDEN = {"llm_input_messages", "compaction_records"}


@both_ways
async def test_no_value_of_a_graph_shows_the_view_or_the_records(stage: Stage, how: str) -> None:
    stage.side(*[Answer("Yes.")] * 4)
    node, saver = node_of(), InMemorySaver()
    react = react_agent(node.wrap(stage.openai()), [], pre_model_hook=node, checkpointer=InMemorySaver())
    for graph in (react, wrapped_graph(node_of(), stage.openai(), checkpointer=saver)):
        for value in (LONG, said("And then?")):
            seen = await streamed(graph, value, how, "values", thread())
            assert {key for event in seen for key in event} == {"messages"}
            assert not any(map(is_summary, seen[-1]["messages"]))
        assert len(records_in(graph)) == 1
        assert set(graph.get_state(thread()).values) == {"messages"}
        for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
            assert not HIDDEN & set(schema["properties"])
    held = {channel for (_, _, channel, _), (kind, _) in saver.blobs.items() if kind != "empty"}
    written = {write[1] for writes in saver.writes.values() for write in writes.values()}
    assert HIDDEN & (held | written) == {"compaction_records"}


def test_a_run_without_a_thread_shows_the_declared_view_only() -> None:
    seen = chat_graph(node_of(), Model()).stream(LONG, stream_mode="values")
    assert {key for event in seen for key in event} == {"messages", "llm_input_messages"}


def test_an_old_view_in_a_checkpoint_is_not_read_again(stage: Stage) -> None:
    """In a thread that began with a model that reads the view from the state of `create_react_agent`."""
    side, saver, node = stage.side(*[Answer("Yes.")] * 2), InMemorySaver(), node_of()
    react_agent(stage.openai(), [], pre_model_hook=node_of(), checkpointer=saver).invoke(LONG, thread())
    agent = react_agent(node.wrap(stage.openai()), [], pre_model_hook=node, checkpointer=saver)
    agent.invoke(said("And then?"), thread())
    assert side.model_requests[-1].messages[-1]["content"] == "And then?"


# -- several tasks in one step


@pytest.mark.parametrize(("how", "target"), [("sync", "compact"), ("async", "model")])
async def test_several_sends_to_one_node_in_a_step_work(stage: Stage, how: str, target: str) -> None:
    summarizer, side = CountingSummarizer(), stage.side(*[Answer("Yes.")] * 3)
    compact = node_of(summarizer)

    def fan(state: MessagesState) -> list[Send]:
        return [Send(target, {"messages": asked(30, first)}) for first in (0, 100, 200)]

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", calls(compact.wrap(stage.openai())))
    builder.add_conditional_edges(START, fan, ["compact", "model"]).add_edge("compact", "model")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    await run(graph, said("Go."), how, thread())
    assert len(summarizer.asked) == len(records_in(graph)) == 3
    views = [texts(request.messages) for request in side.model_requests]
    assert sorted("Question 29" in view for view in views) == ([False, False, True] if target == "model" else [False])


def test_of_several_views_of_one_step_none_is_stored() -> None:
    seen: list[set[str]] = []

    def model(state: ModelInput) -> dict[str, Any]:
        seen.append(set(state))
        return {}

    sends = [Send("compact", {"messages": spoken(2, first=first)}) for first in (0, 9)]
    builder: Any = StateGraph(MessagesState).add_node("compact", node_of()).add_node("model", model)
    builder.add_conditional_edges(START, lambda _: sends, ["compact"]).add_edge("compact", "model")
    builder.compile().invoke(said("Go."))
    assert seen == [{"messages"}]


# -- a model node that reads the view


@pytest.mark.parametrize(
    ("key", "declaration"),
    [
        ("llm_input_messages", r"class State\(MessagesState, CompactionState\): \.\.\."),
        ("prompt", r"prompt: Annotated\[list\[AnyMessage\], UntrackedView\]"),
    ],
)
def test_a_view_that_no_model_can_read_is_refused(key: str, declaration: str) -> None:
    """Otherwise the user's own line would raise a KeyError."""
    graph = chat_graph(node_of(output_key=key), Model(), model_input=MessagesState)
    with pytest.raises(ConfigurationError, match=declaration) as caught:
        graph.invoke(said("Hi."))
    assert 'compact.wrap(model) returns, with state["messages"]' in str(caught.value)
    assert "CompactionNode(output_key=None)" in str(caught.value)


def test_a_model_node_may_ask_for_the_view_itself() -> None:
    compact, sent = node_of(output_key=None), list[list[BaseMessage]]()

    def model(state: MessagesState) -> dict[str, Any]:
        sent.append(compact.view(state))
        return {"messages": [AIMessage("Yes.")]}

    chat_graph(compact, model, model_input=MessagesState).invoke(LONG)
    assert (is_summary(sent[0][0]), sent[0][-1].text) == (True, "And now?")


def test_a_wrapped_model_takes_the_view_of_a_state_that_declares_it() -> None:
    class State(MessagesState, CompactionState):
        prompt: Annotated[list[AnyMessage], UntrackedView]

    for key in ("llm_input_messages", "prompt"):
        node = node_of(output_key=key)
        count: RunnableLambda[Any, AIMessage] = RunnableLambda(lambda view: AIMessage(str(len(view))))
        result = chat_graph(node, calls(node.wrap(count), key), State, State).invoke(LONG)
        assert is_summary(result[key][0])
        assert result["messages"][-1].text == str(len(result[key]))


def test_a_wrapped_model_alone_keeps_its_records_in_the_thread_if_the_schema_is_named(stage: Stage) -> None:
    side, saver, summarizer = stage.side(*[Answer("Yes.")] * 2), InMemorySaver(), CountingSummarizer()
    for value in (LONG, said("And then?")):
        compact = node_of(summarizer)
        builder: Any = StateGraph(MessagesState)
        builder.add_node("model", calls(compact.wrap(stage.openai())), input_schema=compact.schema)
        graph = builder.add_edge(START, "model").compile(checkpointer=saver)
        graph.invoke(value, thread())
        assert SECRET in texts(side.model_requests[-1].messages)
        assert set(graph.get_state(thread()).values) == {"messages"}
    assert len(summarizer.asked) == 1


# -- a structured answer


class Verdict(BaseModel):
    missing: int


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of langchain-openai, with an early langchain-core
@pytest.mark.parametrize(("how", "has_tools"), [("sync", True), ("async", False)])
async def test_create_react_agent_makes_a_structured_answer_of_the_view(
    stage: Stage, how: str, has_tools: bool
) -> None:
    side = stage.side(reads("a.py"), Answer("Read."), Answer('{"missing": 3}'))
    node, model = node_of(), stage.openai()
    wrapped = node.wrap(model.bind_tools([file_tool()]) if has_tools else model)
    agent = react_agent(wrapped, [file_tool()], pre_model_hook=node, response_format=Verdict)
    result = await run(agent, LONG, how)
    assert result["structured_response"] == Verdict(missing=3)
    assert SECRET in texts(side.model_requests[-1].messages)
    assert (side.rejections, side.model_requests[-1].tools) == ([], [])
