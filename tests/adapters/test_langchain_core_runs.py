"""Which conversation a run belongs to, what its streams are told, and how records are kept and joined."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langgraph.graph")

from compaction_adapters.langchain_core import (
    Conversation,
    Conversations,
    LangChainFormat,
    Task,
    records_update,
    union_records,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from compaction_hooks import (
    CompactionController,
    CompactionFailed,
    CompactionReason,
    CompactionSkipped,
    CompactionStarted,
    StoreFailed,
    Usage,
)
from compaction_hooks.events import EventHandler

THREAD: RunnableConfig = {"configurable": {"thread_id": "T"}}


class Names:
    """Collects what the nodes of a graph are called."""

    def __init__(self, run: str | None = None) -> None:
        self.run = run
        self.seen: list[str | None] = []

    def node(self, state: Any) -> dict[str, Any]:
        self.seen.append(Task(get_config()).conversation(self.run))
        return {}

    def graph(self, **options: Any) -> Any:
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
        builder.add_node("node", self.node)
        builder.add_edge(START, "node")
        return builder.compile(**options)


def parent(subgraph: Any, *, times: int = 1, **options: Any) -> Any:
    """A graph that sends a subgraph so many tasks at once."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("sub", subgraph)
    builder.add_conditional_edges(START, lambda state: [Send("sub", {"messages": []})] * times, ["sub"])
    return builder.compile(**options)


# -- conversations


def test_a_thread_names_the_conversation_of_its_own_graph() -> None:
    names = Names()
    graph = names.graph(checkpointer=InMemorySaver())
    graph.invoke({"messages": []}, THREAD)
    graph.invoke({"messages": []}, THREAD)
    graph.invoke({"messages": []}, {"configurable": {"thread_id": 7}})
    assert names.seen == ["T", "T", "7"]


def test_a_run_without_a_thread_is_named_by_whoever_knows_it() -> None:
    names = Names()
    names.graph().invoke({"messages": []})
    assert names.seen == [None]
    named = Names(run="run-1")
    named.graph().invoke({"messages": []})
    assert named.seen == ["run-1"]


def test_a_subgraph_and_each_of_its_tasks_is_a_conversation_of_its_own() -> None:
    names = Names()
    parent(names.graph(), times=3, checkpointer=InMemorySaver()).invoke({"messages": []}, THREAD)
    assert len(set(names.seen)) == 3
    assert all(str(name).startswith("T|sub:") for name in names.seen)


def test_nodes_that_send_started_do_not_share_a_conversation() -> None:
    names = Names()
    parent(names.node, times=2, checkpointer=InMemorySaver()).invoke({"messages": []}, THREAD)
    assert len(set(names.seen)) == 2
    assert "T" not in names.seen


def test_a_workflow_is_its_threads_conversation_and_the_tasks_it_calls_are_not() -> None:
    names = Names()

    @task
    def call(number: int) -> None:
        names.node(None)

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(number: int) -> int:
        names.node(None)
        call(1).result()
        call(2).result()
        return number

    workflow.invoke(1, THREAD)
    assert names.seen[0] == "T"
    assert len(set(names.seen)) == 3


def test_outside_a_graph_the_thread_is_what_the_configuration_says() -> None:
    assert (Task({}).thread, Task({}).conversation()) == (None, None)
    assert (Task(THREAD).thread, Task(THREAD).conversation()) == ("T", "T")
    assert Task({"configurable": {"thread_id": ""}}).conversation() is None


# -- events


def test_events_are_plain_json_without_message_text() -> None:
    told: list[dict[str, Any]] = []
    handler = stream_events(told.append)
    threshold = CompactionReason.THRESHOLD
    usage = Usage(input_tokens=5, output_tokens=2)
    handler(
        CompactionStarted(
            session_id="T",
            reason=threshold,
            tokens_before=9,
            messages_before=3,
            trigger_tokens=8,
            context_window=None,
        )
    )
    handler(CompactionSkipped(session_id="T", reason=threshold, why="undone", tokens=9))
    handler(
        CompactionFailed(
            session_id="T",
            reason=threshold,
            error="TimeoutError: late",
            tokens=9,
            is_over_window=False,
            is_breaker_open=True,
            usage=usage,
        )
    )
    assert [event["status"] for event in told] == ["started", "skipped", "failed"]
    assert {(event["type"], event["session_id"], event["reason"]) for event in told} == {
        ("compaction", "T", "threshold")
    }
    assert told[0]["tokens_before"] == 9
    assert told[1]["usage"] is None
    assert told[2]["usage"]["input_tokens"] == 5
    assert all(type(event["reason"]) is str for event in told)
    assert json.loads(json.dumps(told)) == told


def test_a_finished_compaction_is_told_without_its_record() -> None:
    told: list[dict[str, Any]] = []
    session = compacted(talk(), on_event=stream_events(told.append))
    assert [event["status"] for event in told] == ["started", "finished"]
    assert "record" not in told[1]
    assert told[1]["tokens_after"] > 0
    assert session.export_records()


def stream_events(write: Callable[[Any], None]) -> EventHandler:
    """What a node whose run writes its custom stream with this function tells events."""
    handler = Task({"configurable": {"__pregel_runtime": Runtime(stream_writer=write)}}).on_event
    assert handler is not None
    return handler


# -- records


def talk(first: int = 0) -> list[BaseMessage]:
    turns = [(HumanMessage(f"Question {n}. " * 400), AIMessage(f"Answer {n}. " * 400)) for n in range(first, first + 8)]
    return [message for turn in turns for message in turn]


def compacted(messages: list[BaseMessage], **options: Any) -> Any:
    session = CompactionController(context_window=16_384, **options).session("T", format=LangChainFormat())
    session.transform_context_sync(messages)
    return session


def test_joined_records_are_those_of_both_sides_once() -> None:
    a, b, c = ({"id": name, "summary": name} for name in "abc")
    assert union_records([a, b], [dict(b), c]) == [a, b, c]
    assert union_records(None, [a]) == [a]
    assert union_records([a], None) == [a]
    assert union_records([a, b], [{"id": "a", "undone": True}]) == [b]
    many = [{"id": str(number)} for number in range(20)]
    assert [record["id"] for record in union_records(many, many)] == [str(number) for number in range(12, 20)]


def test_a_state_is_told_of_the_record_in_force_and_of_none_it_holds() -> None:
    session = compacted(talk())
    (record,) = records_update(session, [])
    assert record["id"] == session.export_records()[0]["id"]
    assert json.loads(json.dumps(record)) == record
    assert records_update(session, [record]) == []
    session.transform_context_sync(talk(first=100)[:2])
    assert records_update(session, []) == []


def test_a_state_is_told_what_was_undone() -> None:
    session = compacted(talk())
    held = records_update(session, [])
    session.undo()
    note, gone = records_update(session, held)
    assert gone == {"id": held[0]["id"], "undone": True}
    assert note["takes_back"] == [held[0]["id"]]
    assert union_records(held, [note, gone]) == [note]
    assert records_update(session, [note]) == []


def conversation(conversations: Conversations, name: str, messages: list[BaseMessage]) -> Conversation:
    return conversations.of(Task({"configurable": {"thread_id": name}}), messages)


def carrying(conversations: Conversations) -> list[dict[str, Any]]:
    """Compact a conversation, and return its records."""
    made = conversation(conversations, "T", talk())
    made.session.transform_context_sync(made.messages)
    conversations.keep(made)
    return made.session.export_records()


def new_conversations() -> Conversations:
    return Conversations(CompactionController(context_window=16_384), "records", "run")


def test_carried_records_are_given_to_conversations_they_are_true_of_only() -> None:
    for messages, is_given in (
        ([SystemMessage("Be brief."), *talk(), HumanMessage("?")], True),
        (talk()[:2], False),
        ([*talk()[:1], *talk(first=1)], False),
        (talk(first=1), False),
        ([], False),
    ):
        conversations = new_conversations()
        made = carrying(conversations)
        session = conversation(conversations, "another", messages).session
        assert session.export_records() == (made if is_given else [])


def test_a_session_is_asked_about_once_for_each_beginning() -> None:
    """A session may be shown what a model is given before it is shown the conversation itself."""
    conversations = new_conversations()
    early = conversation(conversations, "early", talk()).session
    late = conversation(conversations, "late", talk(first=1)).session
    made = carrying(conversations)
    conversation(conversations, "early", talk())
    conversation(conversations, "late", talk())
    assert early.export_records() == []
    assert late.export_records() == made


def test_a_store_that_fails_is_told_as_what_it_is() -> None:
    told: list[Any] = []
    stream_events(told.append)(StoreFailed(session_id="a", action="save", error="OSError: disk full"))
    said = {"session_id": "a", "action": "save", "error": "OSError: disk full"}
    assert told == [{"type": "compaction", "status": "store_failed", **said}]
