"""The conversation of a graph's task: its session, and the records for it."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet

from langchain_core.messages import BaseMessage

from compaction_adapters.kit import Sessions
from compaction_adapters.langchain_core.messages import FORMAT
from compaction_adapters.langchain_core.records import records_update
from compaction_adapters.langchain_core.tasks import Task
from compaction_hooks import CompactionController, CompactionSession

if TYPE_CHECKING:  # no quiet call makes one
    from compaction_hooks import CompactionRecord

MAX_CARRIED: Final = 64
"""Number of last used records, a few kilobytes each, that are kept for conversations with the same beginning."""


class RunName(str):
    """The name of a run in a channel of that run: when the channel is freed, the sessions opened for the run are closed."""

    def __init__(self, _: object) -> None:
        self.sessions: set[str] = set()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation of one task.

    Attributes:
        messages: The list of all its messages.
        saved: The records in the state.
        run: The run's name if the conversation ends with the run, else None.
        prefix: Messages before those of the conversation in a model call: usually a system prompt.
    """

    task: Task
    session: CompactionSession[BaseMessage]
    messages: list[BaseMessage]
    saved: Sequence[Mapping[str, object]]
    run: RunName | None
    prefix: Sequence[BaseMessage] = ()


class Conversations(Sessions[BaseMessage]):
    """Opens the session of a task's conversation, with the records in its state.

    The session of a thread is kept in memory for the thread's next run. The session of a subgraph, of a task started by `Send`,
    and of a run without a thread ends with the run. Its messages may come back: in the next run of a host that keeps them, in an
    outer graph's next call, in a fork, in a thread that begins as a copy. So a session also gets those of the latest records
    that are true of its messages.

    Args:
        records_key: The channel of the records.
        run_key: The channel of the run's name.
        suffix: Distinguishes the conversations of one thread.
        has_recall: Whether the model has the recall tool.
    """

    def __init__(
        self,
        controller: CompactionController[Any],
        records_key: str,
        run_key: str,
        suffix: str = "",
        *,
        has_recall: bool = False,
    ) -> None:
        super().__init__(controller, FORMAT)
        self._has_recall = has_recall
        self.records_key, self._run_key, self._suffix = records_key, run_key, suffix
        self._lock = threading.Lock()
        self._checkpointed: WeakSet[CompactionSession[BaseMessage]] = WeakSet()
        self._records: OrderedDict[str, tuple[str, CompactionRecord]] = OrderedDict()
        self._filled: WeakKeyDictionary[CompactionSession[BaseMessage], set[str]] = WeakKeyDictionary()

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
        values = state or {}
        saved = values.get(self.records_key) or task.read_hidden(self.records_key) or ()

        run, name = None, task.conversation()
        if name is None or name != task.thread:
            known = values.get(self._run_key) or task.read_hidden(self._run_key)
            run = known if isinstance(known, RunName) else RunName(f"run-{uuid.uuid4()}")
            name = task.conversation(run)
        name = f"{name}{self._suffix}{kind}"
        if run is not None and name not in run.sessions:
            run.sessions.add(name)
            weakref.finalize(run, self.controller.close, name).atexit = False
        return Conversation(task, self._open_filled(name, messages, saved, task), messages, saved, run)

    def _open_filled(
        self, name: str, messages: Sequence[BaseMessage], saved: Sequence[Mapping[str, object]], task: Task
    ) -> CompactionSession[BaseMessage]:
        session = self.open(name)
        if saved:
            self._checkpointed.add(session)
        elif session in self._checkpointed and task.begins_thread:
            # The thread was deleted from its checkpointer, and a new one begins with its id.
            self.drop(session)
            self.controller.close(name)
            session = self.open(name)
        self._fill(session, messages)
        session.import_records(saved)
        if self._has_recall:
            session.recall_tool(lambda: messages)
        return session

    def _fill(self, session: CompactionSession[BaseMessage], messages: Sequence[BaseMessage]) -> None:
        """Import the records that are true of these messages into a session, once for each beginning."""
        beginning = _beginning(messages)
        with self._lock:
            filled = self._filled.setdefault(session, set())
            if beginning in filled:
                return
            filled.add(beginning)
            alike = [record for other, record in self._records.values() if other == beginning]
        session.import_records([record.to_dict() for record in alike if _is_true(record, messages)])

    def keep(self, conversation: Conversation) -> dict[str, Any]:
        """Keep the records for conversations with the same beginning; return the update of the channels after a call."""
        session = conversation.session
        if own := _own_records(session):
            beginning = _beginning(conversation.messages)
            with self._lock:
                for record in own:
                    self._records[record.id] = (beginning, record)
                    self._records.move_to_end(record.id)
                while len(self._records) > MAX_CARRIED:
                    self._records.popitem(last=False)

        records = records_update(session, conversation.saved)
        values: dict[str, Any] = {self.records_key: records} if records else {}
        if conversation.run is not None and conversation.run is not conversation.task.read_hidden(self._run_key):
            values[self._run_key] = conversation.run
        return values

    def drop(self, session: CompactionSession[BaseMessage]) -> None:
        """Remove the records of a session."""
        with self._lock:
            for record in _own_records(session):
                self._records.pop(record.id, None)


def _own_records(session: CompactionSession[BaseMessage]) -> list[CompactionRecord]:
    return [record for record in session.records if not record.is_note]


def _beginning(messages: Sequence[BaseMessage]) -> str:
    """Return the first text of a conversation: a cheap test that rules out nearly all other conversations."""
    first = next((message for message in messages if message.type != "system"), None)
    if first is None or isinstance(first.content, str):
        return "" if first is None else cast("str", first.content)
    return FORMAT.read(first)[0].text


def _is_true(record: CompactionRecord, messages: Sequence[BaseMessage]) -> bool:
    from compaction_hooks import project

    view = project(messages, record, format=FORMAT)
    return len(view) != len(messages) or any(one is not other for one, other in zip(view, messages, strict=True))
