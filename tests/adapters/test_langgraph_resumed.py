"""A thread that goes on at the model node: after a failure of the provider, an interrupt, or a travel in time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.graph")
pytest.importorskip("langgraph.checkpoint.sqlite")

from compaction_adapters.langgraph import CompactionNode, CompactionState, UntrackedView
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from compaction_hooks.errors import ConfigurationError
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    file_tool,
    reads,
    records_in,
    spoken,
    texts,
    thread,
)
from tests.adapters.langgraph_stage import (
    Model,
    ModelInput,
    chat_graph,
    is_summary,
    messages_of,
    node_of,
    react_agent,
    said,
)
from tests.provider import Answer, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

FAILURE = Rejection(500, {"error": {"message": "Internal server error"}})
LONG: dict[str, Any] = {"messages": [*spoken(30), HumanMessage("And now?")]}
both_ways = pytest.mark.parametrize("how", ["sync", "async"])


@asynccontextmanager
async def saver(kind: str, how: str, path: Path) -> AsyncGenerator[Any]:
    file = str(path / "checkpoints.db")
    if kind == "memory":
        yield InMemorySaver()
    elif how == "sync":
        with SqliteSaver.from_conn_string(file) as made:
            yield made
    else:
        async with AsyncSqliteSaver.from_conn_string(file) as made:
            yield made


def documented(stage: Stage, summarizer: CountingSummarizer, **compiled: Any) -> Any:
    """The graph of README and docs."""
    compact = CompactionNode(context_window=WINDOW, summarizer=summarizer)
    asked = compact.wrap(stage.openai())

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asked.invoke([SystemMessage("Be brief."), *state["messages"]])]}

    async def amodel(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asked.ainvoke([SystemMessage("Be brief."), *state["messages"]])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", RunnableLambda(model, amodel))
    return builder.add_edge(START, "compact").add_edge("compact", "model").compile(**compiled)


async def run(graph: Any, value: Any, how: str, config: Any = None) -> Any:
    config = config or thread()
    return graph.invoke(value, config) if how == "sync" else await graph.ainvoke(value, config)


async def fails(graph: Any, how: str) -> Any:
    with pytest.raises(Exception, match="Internal server error"):
        await run(graph, LONG, how)


async def is_interrupted(graph: Any, how: str) -> Any:
    await run(graph, LONG, how)


async def goes_back(graph: Any, how: str) -> Any:
    """Return the checkpoint at which the model node was next, long after."""
    await run(graph, LONG, how)
    await run(graph, said("And then?"), how)
    async for state in states(graph, how):
        if state.next == ("model",) and state.values["messages"][-1].text == "And now?":
            return state.config
    raise AssertionError


async def states(graph: Any, how: str) -> AsyncIterator[Any]:
    if how == "sync":
        for state in graph.get_state_history(thread()):
            yield state
    else:
        async for state in graph.aget_state_history(thread()):
            yield state


WAYS: list[Any] = [
    pytest.param(fails, (FAILURE, Answer("Resumed.")), {}, id="after a failure"),
    pytest.param(is_interrupted, (Answer("Resumed."),), {"interrupt_before": ["model"]}, id="after an interrupt"),
    pytest.param(goes_back, (Answer("One."), Answer("Two."), Answer("Resumed.")), {}, id="time travel"),
]


@pytest.mark.parametrize(
    ("how", "kind", "process"), [("sync", "memory", "the same process"), ("async", "sqlite", "another process")]
)
@pytest.mark.parametrize(("stops", "answers", "compiled"), WAYS)
async def test_a_thread_that_is_resumed_at_the_model_sends_the_view(
    stage: Stage, tmp_path: Path, how: str, kind: str, process: str, stops: Any, answers: Any, compiled: Any
) -> None:
    side, summarizer = stage.side(*answers), CountingSummarizer()
    async with saver(kind, how, tmp_path) as checkpoints:
        graph = documented(stage, summarizer, checkpointer=checkpoints, **compiled)
        config = await stops(graph, how)
        if process == "another process":
            graph = documented(stage, summarizer, checkpointer=checkpoints, **compiled)
        result = await run(graph, None, how, config)
    assert result["messages"][-1].text == "Resumed."
    assert len(result["messages"]) == 62
    sent = side.model_requests[-1]
    assert (sent.system, sent.messages[-1]["content"]) == ("Be brief.", "And now?")
    assert SECRET in texts(sent.messages)
    assert len(sent.messages) < 30
    assert len(summarizer.asked) == 1


@both_ways
async def test_what_was_said_while_a_run_was_interrupted_reaches_the_model(stage: Stage, how: str) -> None:
    """Also in `create_react_agent`, whose own channel for the view is checkpointed."""
    side = stage.side(*[Answer("Yes.")] * 2)
    node = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer())
    react = react_agent(
        node.wrap(stage.openai()), [], pre_model_hook=node, checkpointer=InMemorySaver(), interrupt_before=["agent"]
    )
    plain = documented(stage, CountingSummarizer(), checkpointer=InMemorySaver(), interrupt_before=["model"])
    for graph in (react, plain):
        await run(graph, LONG, how)
        await graph.aupdate_state(thread(), said("Wait: in German."))
        await run(graph, None, how)
        assert side.model_requests[-1].messages[-1]["content"] == "Wait: in German."
        assert SECRET in texts(side.model_requests[-1].messages)


# -- where the view can be seen


@both_ways
async def test_nobody_who_watches_the_graph_sees_the_view_or_the_records(stage: Stage, how: str) -> None:
    stage.side(*[Answer("Yes.")] * 4)
    node = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer())
    react = react_agent(node.wrap(stage.openai()), [], pre_model_hook=node, checkpointer=InMemorySaver())
    for graph in (documented(stage, CountingSummarizer(), checkpointer=InMemorySaver()), react):
        for value in (LONG, said("And then?")):
            seen = [event async for event in values_of(graph, value, how)]
            assert {key for event in seen for key in event} == {"messages"}
            assert not any(map(is_summary, seen[-1]["messages"]))
        assert len(records_in(graph)) == 1
        assert set(graph.get_state(thread()).values) == {"messages"}
        for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
            assert not {"llm_input_messages", "compaction_records", "compaction_run"} & set(schema["properties"])


async def values_of(graph: Any, value: Any, how: str) -> AsyncIterator[dict[str, Any]]:
    if how == "sync":
        for event in graph.stream(value, thread(), stream_mode="values"):
            yield event
    else:
        async for event in graph.astream(value, thread(), stream_mode="values"):
            yield event


@both_ways
async def test_a_view_that_is_read_from_the_state_can_be_left_out_of_the_stream(stage: Stage, how: str) -> None:
    side, model = stage.side(Answer("Yes.")), Model()
    plain = chat_graph(node_of(CountingSummarizer()), model, checkpointer=InMemorySaver())
    hook = node_of(CountingSummarizer())
    react = react_agent(stage.openai(), [], pre_model_hook=hook, checkpointer=InMemorySaver())
    for graph in (plain, react):
        graph.stream_channels = [key for key in graph.stream_channels_list if key != "llm_input_messages"]
        seen = [event async for event in values_of(graph, LONG, how)]
        assert {key for event in seen for key in event} == {"messages"}
        assert set(graph.get_state(thread()).values) == {"messages"}
    assert is_summary(model.sent[0][0])
    assert len(side.model_requests[0].messages) == len(model.sent[0])


def test_a_run_without_a_thread_shows_no_name_of_its_own() -> None:
    graph = chat_graph(node_of(CountingSummarizer()), Model())
    seen = list(graph.stream(LONG, stream_mode="values"))
    assert {key for event in seen for key in event} == {"messages", "llm_input_messages"}


def test_an_old_view_in_a_checkpoint_is_not_read_again(stage: Stage) -> None:
    """Of a thread that was begun with a model that reads the view from the state of `create_react_agent`."""
    side, saved = stage.side(*[Answer("Yes.")] * 2), InMemorySaver()
    first = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer())
    react_agent(stage.openai(), [], pre_model_hook=first, checkpointer=saved).invoke(LONG, thread())
    then = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer())
    agent = react_agent(then.wrap(stage.openai()), [], pre_model_hook=then, checkpointer=saved)
    agent.invoke(said("And then?"), thread())
    assert side.model_requests[-1].messages[-1]["content"] == "And then?"


# -- several tasks in one step


@pytest.mark.parametrize(("how", "target"), [("sync", "compact"), ("async", "model")])
async def test_several_sends_to_one_node_in_a_superstep_work(stage: Stage, how: str, target: str) -> None:
    summarizer, side = CountingSummarizer(), stage.side(*[Answer("Yes.")] * 3)
    compact = CompactionNode(context_window=WINDOW, summarizer=summarizer)
    asked = compact.wrap(stage.openai())

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asked.invoke(state["messages"])]}

    async def amodel(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asked.ainvoke(state["messages"])]}

    def fan(state: MessagesState) -> list[Send]:
        return [Send(target, {"messages": [*spoken(30, first=first), HumanMessage("?")]}) for first in (0, 100, 200)]

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", RunnableLambda(model, amodel))
    builder.add_conditional_edges(START, fan, ["compact", "model"]).add_edge("compact", "model")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    await run(graph, said("Go."), how)
    assert len(summarizer.asked) == 3
    assert len(records_in(graph)) == 3
    assert len(side.model_requests) == (3 if target == "model" else 1)
    views = [texts(request.messages) for request in side.model_requests]
    if target == "model":
        assert sorted("Case 29 " in view for view in views) == [False, False, True]


def test_of_several_views_of_one_step_none_is_taken_for_the_models() -> None:
    seen: list[set[str]] = []

    def model(state: ModelInput) -> dict[str, Any]:
        seen.append(set(state))
        return {}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", node_of(CountingSummarizer())).add_node("model", model)
    builder.add_conditional_edges(
        START, lambda _: [Send("compact", {"messages": spoken(2, first=n)}) for n in (0, 9)], ["compact"]
    )
    builder.add_edge("compact", "model").compile().invoke(said("Go."))
    assert seen == [{"messages"}]


# -- a graph that cannot work says so


def test_a_view_that_no_model_can_read_is_refused_in_words() -> None:
    """The model node of 0.1.0 without its state: what would otherwise be a KeyError in the user's own line."""
    compact = CompactionNode(context_window=WINDOW)

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(str(len(state["llm_input_messages"])))]}  # type: ignore[typeddict-item]

    graph = chat_graph(compact, model, model_input=MessagesState)
    with pytest.raises(ConfigurationError, match=r"class State\(MessagesState, CompactionState\): \.\.\.") as caught:
        graph.invoke(said("Hi."))
    assert 'compact.wrap(model) returns, with state["messages"]' in str(caught.value)
    assert "CompactionNode(output_key=None)" in str(caught.value)


def test_other_keys_are_named_with_their_own_line() -> None:
    graph = chat_graph(CompactionNode(context_window=WINDOW, output_key="prompt"), Model(), model_input=MessagesState)
    with pytest.raises(ConfigurationError, match=r"prompt: Annotated\[list\[AnyMessage\], UntrackedView\]"):
        graph.invoke(said("Hi."))


@both_ways
async def test_a_model_node_may_ask_for_the_view_itself(how: str) -> None:
    compact, sent = CompactionNode(context_window=WINDOW, output_key=None), list[list[BaseMessage]]()

    def model(state: MessagesState) -> dict[str, Any]:
        sent.append(compact.view(state))
        return {"messages": [AIMessage("Yes.")]}

    graph = chat_graph(compact, model, model_input=MessagesState, checkpointer=InMemorySaver())
    await run(graph, LONG, how)
    assert messages_of(sent[0])[-1] == "And now?"
    assert is_summary(sent[0][0])


def test_a_state_may_still_declare_the_view() -> None:
    class State(MessagesState, CompactionState):
        pass

    class Own(MessagesState):
        prompt: Annotated[list[AnyMessage], UntrackedView]

    for schema, key in ((State, "llm_input_messages"), (Own, "prompt")):
        node = node_of(CountingSummarizer(), output_key=key)
        counting: RunnableLambda[Any, int] = RunnableLambda(len)
        asked = node.wrap(counting)

        def model(state: Any, asked: Any = asked, key: str = key) -> dict[str, Any]:
            return {"messages": [AIMessage(f"{asked.invoke(state[key])} of {len(state[key])}")]}

        result = chat_graph(node, model, schema, schema).invoke(LONG)
        assert is_summary(result[key][0])
        assert result["messages"][-1].text == f"{len(result[key])} of {len(result[key])}"


def test_a_wrapped_model_alone_keeps_its_records_in_the_thread_where_the_schema_is_named(stage: Stage) -> None:
    side, saver = stage.side(*[Answer("Yes.")] * 2), InMemorySaver()
    summarizer = CountingSummarizer()

    def graph() -> Any:
        compact = CompactionNode(context_window=WINDOW, summarizer=summarizer)
        asked = compact.wrap(stage.openai())

        def model(state: MessagesState) -> dict[str, Any]:
            return {"messages": [asked.invoke(state["messages"])]}

        builder: Any = StateGraph(MessagesState)
        builder.add_node("model", model, input_schema=compact.schema).add_edge(START, "model")
        return builder.compile(checkpointer=saver)

    for value in (LONG, said("And then?")):
        graph().invoke(value, thread())
        assert SECRET in texts(side.model_requests[-1].messages)
    assert len(summarizer.asked) == 1
    assert set(graph().get_state(thread()).values) == {"messages"}


def test_an_output_schema_leaves_the_view_out_of_the_result() -> None:
    class State(MessagesState, CompactionState):
        pass

    builder: Any = StateGraph(State, output_schema=MessagesState)
    builder.add_node("compact", node_of(CountingSummarizer())).add_node("model", Model().__call__)
    result = builder.add_edge(START, "compact").add_edge("compact", "model").compile().invoke(LONG)
    assert set(result) == {"messages"}


# -- a structured answer


class Verdict(BaseModel):
    missing: int


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of langchain-openai, with an early langchain-core
@pytest.mark.parametrize(("how", "tools"), [("sync", "bound"), ("async", "not bound")])
async def test_create_react_agent_gives_a_structured_answer_of_the_view(stage: Stage, how: str, tools: str) -> None:
    """Made after the whole run, of the whole conversation, which does not fit."""
    side = stage.side(reads("a.py"), Answer("Read."), Answer('{"missing": 3}'))
    node = CompactionNode(context_window=WINDOW, summarizer=CountingSummarizer())
    model = stage.openai() if tools == "not bound" else stage.openai().bind_tools([file_tool()])
    agent = react_agent(
        node.wrap(model), [file_tool()], pre_model_hook=node, response_format=Verdict, checkpointer=InMemorySaver()
    )
    result = await run(agent, LONG, how)
    assert result["structured_response"] == Verdict(missing=3)
    assert SECRET in texts(side.model_requests[-1].messages)
    assert not side.rejections
    assert side.model_requests[-1].tools == []
