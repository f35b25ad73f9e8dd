"""`CompactionNode` in real graphs: its update, its streams, its arguments, and wrong use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from compaction_adapters.langgraph import CompactionNode, CompactionState, UntrackedView
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.chat_agent_executor import AgentState
from typing_extensions import TypedDict

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests.adapters import graph_changes
from tests.adapters.changes_stage import SUMMARIZE, SYSTEM, check_never_rejected, marked, summarized
from tests.adapters.changes_stage import WINDOW as CHANGES_WINDOW
from tests.adapters.graph_changes import LOOK, Talk, opened
from tests.adapters.langchain_core_stage import (
    LONG,
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    asked,
    heavy_tool,
    is_summary,
    said,
    spoken,
    thread,
)
from tests.adapters.langgraph_stage import Model, ModelInput, chat_graph, messages_of, node_of, react_agent, sessions_of
from tests.cases import folded, sampled
from tests.provider import Answer

VIEW = "llm_input_messages"

# -- the update


async def test_a_short_conversation_is_its_own_view() -> None:
    state, node = {"messages": spoken(2)}, CompactionNode(context_window=WINDOW)
    for update in (node.invoke(state), await node.ainvoke(state), node(state)):
        assert update[VIEW] is state["messages"]
        assert set(update) == {VIEW}


def test_a_long_one_becomes_a_view_of_the_same_objects() -> None:
    messages, summarizer = [SystemMessage("Be brief."), *asked()], CountingSummarizer()
    node = node_of(summarizer, settings=CompactionSettings(keep_user_tokens=0))
    update = node.invoke({"messages": messages})
    view = update[VIEW]
    assert view[0] is messages[0]
    assert is_summary(view[1])
    assert SECRET in view[1].text
    assert all(any(message is own for own in messages) for message in view[2:])
    assert view[-1] is messages[-1]
    assert (len(messages), len(summarizer.asked)) == (62, 1)
    (record,) = update["compaction_records"]
    assert repr(json.loads(json.dumps(record))) == repr(record)  # no tuples, no enums: strict checkpointers refuse them


async def test_a_state_keeps_the_view_of_create_react_agent_out_of_checkpoints(stage: Stage) -> None:
    class State(AgentState, CompactionState):
        pass

    stage.side(*[Answer("Yes. " * 800)] * 12)
    model = stage.openai()
    held = {}
    for schema in (None, State):
        saver, node = InMemorySaver(), CompactionNode(model=model)
        agent = react_agent(model, [], pre_model_hook=node, state_schema=schema, checkpointer=saver)
        for turn in range(6):
            agent.invoke(said(f"Question {turn}. " * 300), thread())
        held[schema] = _checkpointed(saver)
    assert VIEW in held[None]
    assert VIEW not in held[State]
    assert "compaction_records" in held[State]


def _checkpointed(saver: InMemorySaver) -> set[str]:
    """Return the channels of which a checkpoint holds a value."""
    return {channel for (_, _, channel, _), (kind, _) in saver.blobs.items() if kind != "empty"}


# -- keys and schemas


class ChatState(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]


class ChatInput(ChatState):
    prompt: Annotated[list[AnyMessage], UntrackedView]


def test_the_keys_may_be_others() -> None:
    sent: list[Any] = []

    def model(state: ChatInput) -> dict[str, Any]:
        sent.append(state["prompt"])
        return {"chat": [AIMessage("Yes.")]}

    node, saver = node_of(messages_key="chat", output_key="prompt"), InMemorySaver()
    graph = chat_graph(node, model, ChatState, ChatInput, checkpointer=saver)
    assert set(graph.invoke({"chat": asked()}, thread())) == {"chat"}
    assert messages_of(sent[0])[0] == "summary"
    assert _checkpointed(saver) & {"chat", "prompt", "compaction_records"} == {"chat", "compaction_records"}


def test_a_function_around_the_node_needs_its_schema() -> None:
    """LangGraph drops a node's values for undeclared channels; a dropped record is paid for again and again."""
    summarizer, model = CountingSummarizer(), Model()
    node = node_of(summarizer)

    def around(state: MessagesState) -> dict[str, Any]:
        return node.invoke(state)

    with pytest.raises(ConfigurationError, match=r"no channel .*'compaction_records'.*input_schema=node\.schema"):
        chat_graph(around, model).invoke(LONG)
    assert summarizer.asked == []
    builder: Any = StateGraph(MessagesState).add_node("compact", around, input_schema=node.schema)
    builder.add_node("model", model.__call__).add_edge(START, "compact").add_edge("compact", "model")
    builder.compile().invoke(LONG)
    assert messages_of(model.sent[0])[0] == "summary"


class Added(MessagesState):
    llm_input_messages: Annotated[list[AnyMessage], add_messages]


def test_a_reducer_that_would_add_views_up_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'llm_input_messages' has a reducer"):
        chat_graph(CompactionNode(context_window=WINDOW), Model(), Added, Added).invoke(said("Hi."))


# -- models, windows, controllers


async def test_tools_bound_to_a_model_count(stage: Stage) -> None:
    stage.side()
    for tools, is_compacted in (([], False), ([heavy_tool(12_000)], True)):
        node = CompactionNode(model=stage.openai().bind_tools(tools))
        assert is_summary(node.invoke({"messages": asked(5)})[VIEW][0]) is is_compacted


def test_a_controller_of_any_format_is_shared() -> None:
    events: list[CompactionEvent] = []
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW, on_event=events.append)
    node = CompactionNode(controller)
    assert node.controller is controller
    chat_graph(node, Model(), checkpointer=InMemorySaver()).invoke(LONG, thread("T"))
    assert sessions_of(events) == ["T"]
    assert node.session("T") is controller.session("T")
    assert node.session("T").state().compaction_count == 1


def test_a_system_prompt_and_tools_count() -> None:
    prompt = SystemMessage("Mind the rules of the house. " * 1_700)
    messages = asked(4)
    for counted in (
        {"system": prompt},
        {"tools": [heavy_tool(28_000), {"type": "function", "function": {"name": "f"}}]},
    ):
        node = node_of(**counted)
        assert is_summary(node.invoke({"messages": messages})[VIEW][0])
    assert node_of().invoke({"messages": messages})[VIEW] is messages


# -- wrong use


@folded(
    "keywords, message",
    [
        ({"output_key": "messages"}, "output_key='messages' must name two keys.*trim=True"),
        ({"messages_key": ""}, "messages_key='' and .* must name two keys"),
        ({"output_key": "compaction_records"}, "which the node itself uses"),
        ({"controller": CompactionController(), "context_window": 9_000}, "give a controller or its keywords"),
        ({"settings": CompactionSettings(trigger_ratio=0.5)}, "is a part of a context window that is not known"),
        ({"context_window": 0}, "context_window=0"),
    ],
)
def test_wrong_arguments_are_refused(keywords: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CompactionNode(**keywords)


@pytest.mark.parametrize("state", [{}, {"chat": []}, {"messages": "hi"}], ids=str)
def test_a_state_without_messages_is_refused(state: Any) -> None:
    with pytest.raises(ConfigurationError, match="no list of messages under 'messages'"):
        CompactionNode(context_window=WINDOW).invoke(state)


def a_graph(stage: Stage, checkpointer: Any, **options: Any) -> Any:
    """Return a user's own graph: the compaction node, a model node that asks it for the view, tools."""
    model = stage.openai(CHANGES_WINDOW).bind_tools([LOOK])
    compact = CompactionNode(model=model, settings=SUMMARIZE, system=SYSTEM, **options)
    wrapped = compact.wrap(model)

    def answer(state: ModelInput) -> dict[str, Any]:
        return {"messages": [wrapped.invoke([SystemMessage(SYSTEM), *compact.view(state)])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", answer).add_node("tools", ToolNode([LOOK]))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile(checkpointer=checkpointer)


@pytest.mark.full
async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(a_graph, stage)


@pytest.mark.full
async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    graph_changes.check_crash_in_the_model_call(a_graph, stage, tmp_path / "threads.db")


def edit_summarized_answer(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [AIMessage(marked("e"), id=messages[3].id)]


def edit_last_request(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(marked("e"), id=messages[-2].id)]


def replace_all(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage(marked("e")), AIMessage(marked("e")), *messages[-4:]]


@pytest.mark.parametrize("change", sampled([edit_summarized_answer, edit_last_request, replace_all], 1))
async def test_an_edit(stage: Stage, change: Callable[[list[BaseMessage]], list[BaseMessage]]) -> None:
    """`update_state` changes summarized or kept messages by their ids; a summary of messages that are gone is not sent."""
    talk = opened(a_graph, stage)
    talk.say_until_summarized()
    before = talk.messages
    talk.graph.update_state(talk.config, {"messages": change(before)})
    assert talk.messages != before
    talk.say(4)
    check_never_rejected(talk.side)


async def test_two_workers(stage: Stage) -> None:
    saver = InMemorySaver()
    one = opened(a_graph, stage, checkpointer=saver)
    other = Talk(a_graph(stage, saver), one.side)
    for _ in range(10):
        one.say()
        other.say()
    alone = opened(a_graph, stage)
    alone.say(20)
    assert len(summarized(one.side)) == len(summarized(alone.side)) >= 2
