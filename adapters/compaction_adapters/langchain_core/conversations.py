"""The conversation of a graph's task: its session, the records for it in a channel of the state, and the tools of its model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet, WeakValueDictionary

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from compaction_adapters.kit import ModelTool, Sessions, model_tools, opening_key
from compaction_adapters.langchain_core.messages import FORMAT
from compaction_adapters.langchain_core.tasks import Task
from compaction_hooks import CompactionController, CompactionRecord, CompactionSession, project

MAX_SHORT: Final = 64
"""Number of conversations used last that are kept in memory of those that end with a run: the process is not told of the end."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation of one task.

    Attributes:
        messages: The list of all its messages.
        saved: The records in the state.
        prefix: Messages before those of the conversation in a model call: usually a system prompt.
    """

    task: Task
    session: CompactionSession[BaseMessage]
    messages: list[BaseMessage]
    saved: Sequence[Mapping[str, object]]
    prefix: Sequence[BaseMessage] = ()


class Conversations(Sessions[BaseMessage]):
    """Opens the session of a task's conversation, with the records in its state.

    A run without a thread is named by the beginning of its messages, so that the next run of a host that keeps the messages itself
    finds its summary. A subgraph of a thread has a new name in each run, and a thread may begin as a copy of another one: a session
    without records gets those of the latest conversation with the same beginning that are true of its messages.

    Args:
        records_key: The channel of the records.
        suffix: Distinguishes the conversations of one thread.
        has_recall: Whether the model has the recall tool.
    """

    def __init__(
        self, controller: CompactionController[Any], records_key: str, suffix: str = "", *, has_recall: bool = False
    ) -> None:
        super().__init__(controller, FORMAT)
        self._has_recall = has_recall
        self.records_key, self._suffix = records_key, suffix
        self._checkpointed: WeakSet[CompactionSession[BaseMessage]] = WeakSet()
        self._short: OrderedDict[str, None] = OrderedDict()
        self._latest: WeakValueDictionary[str, CompactionSession[BaseMessage]] = WeakValueDictionary()

    def thread(self, thread: str) -> CompactionSession[BaseMessage]:
        """Return the session of a thread's own conversation."""
        return self.open(f"{thread}{self._suffix}")

    def of(
        self, task: Task, messages: list[BaseMessage], state: Mapping[str, Any] | None = None, kind: str = ""
    ) -> Conversation:
        """Return the conversation of a task.

        Args:
            state: The state passed to a node that is called outside a graph; in a graph its values are in channels.
            kind: Distinguishes conversations of the same task.
        """
        saved = (state or {}).get(self.records_key) or task.read_hidden(self.records_key) or ()
        name = task.conversation() or f"opening-{opening_key(FORMAT, messages)}"
        session = self._open_filled(f"{name}{self._suffix}{kind}", messages, saved, task)
        if name != task.thread:
            self._close_oldest(session.id)
        if self._has_recall:
            session.recall_tool(lambda: messages)
        return Conversation(task, session, messages, saved)

    def _close_oldest(self, last: str) -> None:
        self._short.pop(last, None)
        self._short[last] = None
        if len(self._short) > MAX_SHORT:
            self.controller.close(self._short.popitem(last=False)[0])

    def _open_filled(
        self, name: str, messages: Sequence[BaseMessage], saved: Sequence[Mapping[str, object]], task: Task
    ) -> CompactionSession[BaseMessage]:
        session = self.open(name)
        if saved:
            self._checkpointed.add(session)
        elif session in self._checkpointed and task.begins_thread:
            # The thread was deleted from its checkpointer, and a new one begins with its id.
            self._latest.pop(opening_key(FORMAT, messages), None)
            self.controller.close(name)
            session = self.open(name)
        elif self._latest and not session.records:
            alike = self._latest.get(opening_key(FORMAT, messages))
            records = alike.records if alike is not None else ()
            saved = [one.to_dict() for one in records if not one.is_note and _is_true(one, messages)]

        session.import_records(saved)
        return session

    def keep(self, conversation: Conversation) -> dict[str, Any]:
        """Keep the records for conversations with the same beginning; return the update of the channel after a call."""
        session = conversation.session
        if session.record is not None:
            self._latest[opening_key(FORMAT, conversation.messages)] = session
        records = records_update(session, conversation.saved)
        return {self.records_key: records} if records else {}


def _is_true(record: CompactionRecord, messages: Sequence[BaseMessage]) -> bool:
    view = project(messages, record, format=FORMAT)
    return len(view) != len(messages) or any(one is not other for one, other in zip(view, messages, strict=True))


# -- records in a state's channel

Records: TypeAlias = list[Mapping[str, object]]
"""Records as plain JSON."""
MOST_RECORDS: Final = 8
"""Number of newest records in a state, which bounds each checkpoint. Time travel finds older records in older checkpoints."""


def union_records(left: Iterable[Mapping[str, object]] | None, right: Iterable[Mapping[str, object]] | None) -> Records:
    """Join two lists of records without duplicates, in their order: the reducer of a record channel.

    Records that a note of either side takes back are left out, and all records but the newest `MOST_RECORDS`. Notes stay.
    """
    joined = {str(record.get("id")): record for record in [*(left or ()), *(right or ())]}
    undone = {gone for record in joined.values() for gone in cast("Sequence[str]", record.get("takes_back") or ())}
    notes = [record for record in joined.values() if record.get("covered_digest") == ""]  # those cover no messages
    records = [record for name, record in joined.items() if name not in undone and record not in notes]
    return [*notes, *records[-MOST_RECORDS:]]


def records_update(session: CompactionSession[Any], saved: Sequence[Mapping[str, object]]) -> Records:
    """Return the update of a state's channel: the active record and notes if the state lacks them.

    Of the records only the active one: those of other branches of the thread are in the checkpoints of these branches.

    Args:
        saved: The records in the state.
    """
    known = {str(one.get("id")) for one in saved}
    found = [record for record in session.records if record.is_note or record is session.record]
    return [one.to_dict() for one in found if one.id not in known]


# -- the tools of the model


def list_tools(conversations: Conversations, messages_key: str, *, recall: bool, compact: bool) -> list[BaseTool]:
    """Return the tools that are turned on, for the conversations of a graph; they read the messages in the state of their run.

    Args:
        messages_key: The state's key for messages.
    """

    def make(tool: ModelTool) -> BaseTool:
        def answer(config: RunnableConfig, **arguments: Any) -> str:
            task = Task(config, is_tool=True)
            messages: list[Any] = task.get(messages_key) or []
            return tool.make(conversations.of(task, messages).session, lambda: messages)(**arguments)

        return StructuredTool.from_function(
            answer, name=tool.name, description=tool.description, args_schema=tool.parameters, infer_schema=False
        )

    return [make(tool) for tool in model_tools(recall=recall, compact=compact)]
