"""Runs without a thread, trimmed conversations, and records in a `BaseStore`."""

from __future__ import annotations

import gc
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import BaseStoreRecordStore, CompactionNode, CompactionState
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from compaction_hooks import CompactionController
from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer, spoken, thread
from tests.adapters.langgraph_stage import (
    Model,
    ModelInput,
    chat_graph,
    is_summary,
    messages_of,
    node_of,
    question,
    react_agent,
    said,
    sessions_of,
)

# -- runs without a thread


def test_a_run_without_a_thread_leaves_nothing_behind_and_is_not_paid_for_twice() -> None:
    """Hosts that keep the messages themselves hand the whole list over each time."""
    events: list[CompactionEvent] = []
    summarizer = CountingSummarizer()
    controller: CompactionController[Any] = CompactionController(
        context_window=WINDOW, summarizer=summarizer, on_event=events.append
    )
    graph = chat_graph(CompactionNode(controller), Model())
    talk = spoken(30)
    graph.invoke({"messages": [*talk, HumanMessage("And now?")]})
    (session_id,) = sessions_of(events)
    gc.collect()
    assert controller.session(session_id).export_records() == []
    graph.invoke({"messages": [*talk, HumanMessage("And now?")]})
    assert len(summarizer.asked) == 1


def test_a_run_without_a_thread_is_one_conversation() -> None:
    events: list[CompactionEvent] = []
    summarizer = CountingSummarizer()
    node = node_of(summarizer, on_event=events.append)

    def model(state: ModelInput) -> dict[str, Any]:
        return {"messages": [AIMessage("Case closed. " * 600), HumanMessage("Go on.")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", node)
    builder.add_node("model", model)
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    builder.add_conditional_edges("model", lambda state: "compact" if len(state["messages"]) < 30 else END)
    graph: Any = builder.compile()
    graph.invoke(said("Go."), {"recursion_limit": 100})
    assert len(summarizer.asked) >= 2
    assert len(set(sessions_of(events))) == 1


# -- trimming


def append(base: list[BaseMessage], writes: list[Any]) -> list[BaseMessage]:
    """A reducer of a delta channel."""
    return [*base, *(message for write in writes for message in (write if isinstance(write, list) else [write]))]


def delta_state() -> Any:
    channels = pytest.importorskip("langgraph.channels.delta")
    made: Any = TypedDict
    return made("DeltaState", {"messages": Annotated[list[AnyMessage], channels.DeltaChannel(append)]})


@pytest.mark.parametrize("kind", ["add_messages", "delta"])
def test_trimming_keeps_checkpoints_small_and_nothing_stale(kind: str) -> None:
    state = MessagesState if kind == "add_messages" else delta_state()
    summarizer, model = CountingSummarizer(), Model()
    graph = chat_graph(node_of(summarizer, trim=True), model, state, CompactionState, checkpointer=InMemorySaver())
    for number in range(40):
        result = graph.invoke(question(number), thread())
        assert len(result["messages"]) < 20
        assert messages_of(result["messages"])[:-1] == messages_of(model.sent[-1])
    assert len(summarizer.asked) >= 3
    assert sum(map(is_summary, result["messages"])) == 1
    ids = [message.id for message in result["messages"]]
    assert len(set(ids)) == len(ids)


def test_a_trimmed_conversation_survives_a_restart() -> None:
    checkpoints = InMemorySaver()
    first, second = CountingSummarizer(), CountingSummarizer()
    graph = chat_graph(node_of(first, trim=True), Model(), checkpointer=checkpoints)
    for number in range(12):
        graph.invoke(question(number), thread())
    model = Model()
    graph = chat_graph(node_of(second, trim=True), model, checkpointer=checkpoints)
    graph.invoke(said("And now?"), thread())
    assert messages_of(model.sent[0])[0] == "summary"
    assert second.asked == []
    for number in range(12):
        graph.invoke(question(number), thread())
    assert second.asked[0].previous_summary is not None
    assert "KINGFISHER" in second.asked[0].previous_summary


def test_create_react_agent_is_trimmed_too() -> None:
    model = FakeMessagesListChatModel(responses=[AIMessage("Yes.")])
    node = node_of(CountingSummarizer(), trim=True)
    agent = react_agent(model, [], pre_model_hook=node, checkpointer=InMemorySaver())
    result = agent.invoke({"messages": [*spoken(30), HumanMessage("And now?")]}, thread())
    assert messages_of(result["messages"])[0] == "summary"
    assert messages_of(result["messages"])[-2:] == ["And now?", "Yes."]


class Plain(TypedDict):
    messages: list[AnyMessage]


def test_a_key_without_a_reducer_is_trimmed_too() -> None:
    node, checkpoints = node_of(CountingSummarizer(), trim=True), InMemorySaver()
    graph = chat_graph(node, lambda state: {}, Plain, CompactionState, checkpointer=checkpoints)
    result = graph.invoke({"messages": [*spoken(30), HumanMessage("?")]}, thread())
    assert messages_of(result["messages"])[0] == "summary"
    assert len(result["messages"]) < 30


class Whole(MessagesState, CompactionState):
    pass


# -- records in a store


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_store_outlives_the_process_where_there_is_no_checkpointer(how: str) -> None:
    store, talk = InMemoryStore(), [*spoken(30), HumanMessage("And now?")]
    summarizer = CountingSummarizer()
    for _ in range(2):
        model = Model()
        graph = chat_graph(node_of(summarizer, store=BaseStoreRecordStore(store)), model)
        if how == "sync":
            graph.invoke({"messages": talk}, thread("user.1"))
        else:
            await graph.ainvoke({"messages": talk}, thread("user.1"))
        assert messages_of(model.sent[0])[0] == "summary"
    assert len(summarizer.asked) == 1
