"""Histories that change under a LangGraph thread: time travel, edits, crashes, several workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, tools_condition

from tests.adapters import graph_changes
from tests.adapters.changes_stage import SUMMARIZE, SYSTEM, WINDOW, check_never_rejected, marked, summarized
from tests.adapters.graph_changes import LOOK, Talk, opened
from tests.adapters.langchain_core_stage import Stage
from tests.adapters.langgraph_stage import ModelInput


def a_graph(stage: Stage, checkpointer: Any, **options: Any) -> Any:
    """Return a user's own graph: the compaction node, a model node that asks it for the view, tools."""
    model = stage.openai(WINDOW).bind_tools([LOOK])
    compact = CompactionNode(model=model, settings=SUMMARIZE, system=SYSTEM, **options)
    wrapped = compact.wrap(model)

    def answer(state: ModelInput) -> dict[str, Any]:
        return {"messages": [wrapped.invoke([SystemMessage(SYSTEM), *compact.view(state)])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", answer).add_node("tools", ToolNode([LOOK]))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile(checkpointer=checkpointer)


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(a_graph, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    graph_changes.check_crash_in_the_model_call(a_graph, stage, tmp_path / "threads.db")


def edit_summarized_answer(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [AIMessage(marked("e"), id=messages[3].id)]


def edit_last_request(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(marked("e"), id=messages[-2].id)]


def replace_all(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage(marked("e")), AIMessage(marked("e")), *messages[-4:]]


@pytest.mark.parametrize("change", [edit_summarized_answer, edit_last_request, replace_all])
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
