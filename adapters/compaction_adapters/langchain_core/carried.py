"""Records for conversations that begin with messages of another, or with their own from a state that is gone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import Sessions
from compaction_adapters.langchain_core.messages import FORMAT
from compaction_adapters.langchain_core.runs import begins_thread
from compaction_hooks import CompactionController, CompactionRecord, CompactionSession, project

MAX_CARRIED: Final = 64
"""Records that are kept, those used last: a few kilobytes each."""


class CarriedSessions(Sessions[BaseMessage]):
    """Sessions whose records are also found by the messages they are true of: those made last.

    A host that keeps the messages itself starts runs without a thread, an outer graph runs another as its node, a deep agent goes
    on in a fork, a thread begins as a copy of another: each brings the whole conversation along, and none the state of the run
    that summarised its beginning.
    """

    def __init__(self, controller: CompactionController[Any]) -> None:
        super().__init__(controller, FORMAT)
        self._lock = threading.Lock()
        self._checkpointed: WeakSet[CompactionSession[BaseMessage]] = WeakSet()
        self._records: OrderedDict[str, tuple[str, CompactionRecord]] = OrderedDict()
        self._filled: WeakKeyDictionary[CompactionSession[BaseMessage], set[str]] = WeakKeyDictionary()

    def open(
        self,
        name: str,
        messages: Sequence[BaseMessage],
        held: Sequence[Mapping[str, object]] | None,
        config: RunnableConfig,
    ) -> CompactionSession[BaseMessage]:
        """Return the session of a task with the records its state holds, and those that are true of its messages.

        The session of a thread that was deleted from its checkpointer is closed, and another begins.

        Args:
            config: The configuration of the task.
        """
        session = self.named(name)
        if held:
            self._checkpointed.add(session)
        elif session in self._checkpointed and begins_thread(config):
            self.drop(session)
            self.controller.close(name)
            session = self.named(name)
        self._fill(session, messages)
        session.import_records(held or ())
        return session

    def _fill(self, session: CompactionSession[BaseMessage], messages: Sequence[BaseMessage]) -> None:
        """Give a session the records that are true of these messages, once for each beginning it is asked with."""
        beginning = _beginning(messages)
        with self._lock:
            filled = self._filled.setdefault(session, set())
            if beginning in filled:
                return
            filled.add(beginning)
            alike = [record for other, record in self._records.values() if other == beginning]
        session.import_records([record.to_dict() for record in alike if _is_true(record, messages)])

    def keep(self, session: CompactionSession[BaseMessage], messages: Sequence[BaseMessage]) -> None:
        """Keep the records of the conversation these messages are."""
        records = _own_records(session)
        if not records:
            return
        beginning = _beginning(messages)
        with self._lock:
            for record in records:
                self._records[record.id] = (beginning, record)
                self._records.move_to_end(record.id)
            while len(self._records) > MAX_CARRIED:
                self._records.popitem(last=False)

    def drop(self, session: CompactionSession[BaseMessage]) -> None:
        """Keep the records of a session no longer."""
        records = _own_records(session)
        with self._lock:
            for record in records:
                self._records.pop(record.id, None)


def _own_records(session: CompactionSession[BaseMessage]) -> list[CompactionRecord]:
    return [record for record in session.records if not record.is_note]


def _beginning(messages: Sequence[BaseMessage]) -> str:
    """The text a conversation begins with: enough to pass over nearly all others without reading this one."""
    first = next((message for message in messages if message.type != "system"), None)
    return "" if first is None else FORMAT.read(first)[0].text


def _is_true(record: CompactionRecord, messages: Sequence[BaseMessage]) -> bool:
    view = project(messages, record, format=FORMAT)
    return len(view) != len(messages) or any(one is not other for one, other in zip(view, messages, strict=True))
