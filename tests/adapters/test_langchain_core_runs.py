"""The conversation of a run, status events, and the records kept for conversations and in states."""

import json
from typing import Any

from compaction_adapters.langchain_core import (
    Conversation,
    Conversations,
    LangChainFormat,
    Task,
    records_update,
    union_records,
)
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
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
    StoreFailed,
    Usage,
)
from tests.adapters.langchain_core_stage import spoken, thread

THREAD = thread("T")
EMPTY: dict[str, Any] = {"messages": []}


class Names:
    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def node(self, state: Any) -> dict[str, Any]:
        self.seen.append(Task(get_config()).conversation())
        return {}


# -- names of conversations


def test_the_configuration_names_the_conversation() -> None:
    configs: list[RunnableConfig] = [{}, THREAD, thread(""), {"configurable": {"thread_id": 7}}]
    assert [Task(config).conversation() for config in configs] == [None, "T", None, "7"]


def test_each_task_that_send_starts_is_a_conversation_of_its_own() -> None:
    for kind in ("graph", "node"):
        names = Names()
        inner: Any = StateGraph(MessagesState).add_node("node", names.node).add_edge(START, "node")
        builder: Any = StateGraph(MessagesState).add_node("sub", inner.compile() if kind == "graph" else names.node)
        builder.add_conditional_edges(START, lambda state: [Send("sub", EMPTY)] * 3, ["sub"])
        builder.compile(checkpointer=InMemorySaver()).invoke(EMPTY, THREAD)
        assert len(set(names.seen)) == 3
        assert all(str(name).startswith("T|sub:") for name in names.seen)


def test_a_workflow_is_the_conversation_of_its_thread_and_the_tasks_it_calls_are_not() -> None:
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


# -- events


def test_events_are_plain_json() -> None:
    written: list[dict[str, Any]] = []
    write = Task({"configurable": {"__pregel_runtime": Runtime(stream_writer=written.append)}}).on_event
    assert write is not None
    due: dict[str, Any] = {"session_id": "T", "reason": CompactionReason.THRESHOLD, "tokens": 9}
    usage = Usage(input_tokens=5, output_tokens=2)
    write(CompactionSkipped(**due, why="undone"))
    write(CompactionFailed(**due, error="TimeoutError: late", is_over_window=False, is_breaker_open=True, usage=usage))
    write(StoreFailed(session_id="T", action="save", error="OSError: disk full"))
    skipped, failed, unsaved = json.loads(json.dumps(written))
    assert written == [skipped, failed, unsaved]
    assert [(event["type"], event["status"]) for event in written] == [
        ("compaction", "skipped"),
        ("compaction", "failed"),
        ("compaction", "store_failed"),
    ]
    assert (skipped["reason"], skipped["usage"], failed["usage"]["input_tokens"]) == ("threshold", None, 5)
    assert all(type(event["reason"]) is str for event in written[:2])
    assert (unsaved["action"], unsaved["error"]) == ("save", "OSError: disk full")


# -- records


def talk(first: int = 0) -> list[BaseMessage]:
    return spoken(8, chars=6_000, first=first)


def compact(messages: list[BaseMessage]) -> Any:
    session = CompactionController(context_window=16_384).session("T", format=LangChainFormat())
    session.transform_context_sync(messages)
    return session


def test_joined_records_are_those_of_both_sides_once() -> None:
    a, b, c = ({"id": name, "summary": name} for name in "abc")
    assert union_records([a, b], [dict(b), c]) == [a, b, c]
    assert union_records(None, [a]) == union_records([a], None) == [a]
    undo = {"id": "n", "covered_digest": "", "takes_back": ["a"]}
    assert union_records([a, b], [undo]) == union_records([undo, b], [a]) == [undo, b]
    many = [{"id": str(number)} for number in range(20)]
    assert [record["id"] for record in union_records(many, many)] == [str(number) for number in range(12, 20)]


def test_the_update_of_a_state_has_the_active_record_if_the_state_lacks_it() -> None:
    session = compact(talk())
    (record,) = records_update(session, [])
    assert record["id"] == session.export_records()[0]["id"]
    assert records_update(session, [record]) == []
    session.transform_context_sync(talk(first=100)[:2])
    assert records_update(session, []) == []


def test_an_undone_record_is_gone_from_the_state() -> None:
    session = compact(talk())
    saved = records_update(session, [])
    session.undo()
    (note,) = records_update(session, saved)
    assert note["takes_back"] == [saved[0]["id"]]
    assert union_records(saved, [note]) == [note]
    assert records_update(session, [note]) == []


def new_conversations() -> Conversations:
    return Conversations(CompactionController(context_window=16_384), "records")


def conversation(conversations: Conversations, name: str, messages: list[BaseMessage]) -> Conversation:
    return conversations.of(Task(thread(name)), messages)


def kept_records(conversations: Conversations) -> list[dict[str, Any]]:
    """Compact a conversation, and return its records."""
    made = conversation(conversations, "T", talk())
    made.session.transform_context_sync(made.messages)
    conversations.keep(made)
    return made.session.export_records()


def test_a_record_is_given_to_conversations_with_all_its_messages_only() -> None:
    for messages, is_given in (
        ([SystemMessage("Be brief."), *talk(), HumanMessage("?")], True),
        (talk()[:2], False),
        ([*talk()[:1], *talk(first=1)], False),
        (talk(first=1), False),
        ([], False),
    ):
        conversations = new_conversations()
        kept = kept_records(conversations)
        session = conversation(conversations, "another", messages).session
        assert session.export_records() == (kept if is_given else [])


def test_a_session_gets_records_when_it_begins_alike() -> None:
    """A session may see the input of a model before it sees the conversation itself."""
    conversations = new_conversations()
    late = conversation(conversations, "late", talk(first=1)).session
    kept = kept_records(conversations)
    conversation(conversations, "late", talk())
    assert late.export_records() == kept
