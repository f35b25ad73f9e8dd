"""Records for conversations that begin with messages of another, or with their own from a state that is gone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from langchain_core.messages import BaseMessage

from compaction_adapters.langchain.requests import FORMAT
from compaction_hooks import CompactionRecord, project

MAX_CARRIED: Final = 64
"""Records that are kept, those used last: a few kilobytes each."""


class CarriedRecords:
    """Records that were made last, to be found by the messages they are true of.

    A host that keeps the messages itself calls an agent without a thread, an outer graph calls one as its node, a deep agent goes
    on in a fork, a thread begins as a copy of another: each brings the whole conversation along, and none the state of the agent
    that summarised its beginning.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: OrderedDict[str, tuple[str, Mapping[str, object]]] = OrderedDict()

    def keep(self, messages: Sequence[BaseMessage], records: Iterable[Mapping[str, object]]) -> None:
        """Keep the records of the conversation these messages are."""
        beginning = _beginning(messages)
        with self._lock:
            for record in records:
                self._records[str(record["id"])] = (beginning, record)
                self._records.move_to_end(str(record["id"]))
            while len(self._records) > MAX_CARRIED:
                self._records.popitem(last=False)

    def true_of(self, messages: Sequence[BaseMessage]) -> list[Mapping[str, object]]:
        """Return those that apply to these messages, in the order they were made."""
        beginning = _beginning(messages)
        with self._lock:
            alike = [record for other, record in self._records.values() if other == beginning]
        return [record for record in alike if _is_true(record, messages)]


def _beginning(messages: Sequence[BaseMessage]) -> str:
    """The text a conversation begins with: enough to pass over nearly all others without reading this one."""
    first = next((message for message in messages if message.type != "system"), None)
    return "" if first is None else FORMAT.read(first)[0].text


def _is_true(record: Mapping[str, object], messages: Sequence[BaseMessage]) -> bool:
    view = project(messages, CompactionRecord.from_dict(record), format=FORMAT)
    return len(view) != len(messages) or any(one is not other for one, other in zip(view, messages, strict=True))
