"""The conversation of a graph's task: its session, and the records for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet, WeakValueDictionary

from langchain_core.messages import BaseMessage

from compaction_adapters.kit import Sessions, opening_key
from compaction_adapters.langchain_core.messages import FORMAT
from compaction_adapters.langchain_core.records import records_update
from compaction_adapters.langchain_core.tasks import Task
from compaction_hooks import CompactionController, CompactionSession

if TYPE_CHECKING:  # no quiet call makes one
    from compaction_hooks import CompactionRecord

MAX_SHORT: Final = 128
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
        self._lock = threading.Lock()
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
        with self._lock:
            self._short[last] = None
            self._short.move_to_end(last)
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
    from compaction_hooks import project

    view = project(messages, record, format=FORMAT)
    return len(view) != len(messages) or any(one is not other for one, other in zip(view, messages, strict=True))
