"""Records in a state's channel: what a session has to add to it, how those of parallel branches join."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from langchain_core.messages import BaseMessage, SystemMessage

from compaction_hooks import CompactionSession

MOST_RECORDS: Final = 8
"""Records kept in a state, the newest. Time travel finds older ones in older checkpoints, and each checkpoint stays bounded."""
MOST_CARRIED: Final = 64
"""Records kept in memory for conversations whose name does not last. Each is about as large as a summary."""
_UNDONE: Final = "undone"


def union_records(
    left: Iterable[Mapping[str, object]] | None, right: Iterable[Mapping[str, object]] | None
) -> list[Mapping[str, object]]:
    """Join two lists of records, each once, in the order they came: the reducer of a record channel.

    Left out is what either side says is undone, and all but the newest `MOST_RECORDS`.
    """
    joined = {str(record.get("id")): record for record in [*(left or ()), *(right or ())]}
    return [record for record in joined.values() if not record.get(_UNDONE)][-MOST_RECORDS:]


def records_update(session: CompactionSession[Any], held: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return what a state's channel must be told after a call: the record in force where it lacks it, and what was undone.

    Only the record in force: those of other branches of the thread are in the checkpoints of these branches.

    Args:
        held: The records the state holds.
    """
    conversation = session.engine.conversation
    with conversation.lock:
        history = conversation.history
        record = None if history is None else conversation.newest_true(history)
        undone = conversation.undone.intersection(str(one.get("id")) for one in held)
    is_new = record is not None and all(one.get("id") != record.id for one in held)
    # Through JSON: a checkpointer's serialiser would keep tuples and enums, and warn of them or refuse them.
    new = [json.loads(json.dumps(record.to_dict()))] if record is not None and is_new else []
    return [*new, *({"id": record_id, _UNDONE: True} for record_id in sorted(undone))]


class CarriedRecords:
    """Records of conversations that nothing names beyond one run, for the next run in which the same messages come back.

    A record applies to exactly the messages it was made from; it is offered to conversations that begin with the same ones.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[str, tuple[str, Mapping[str, object]]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, messages: Sequence[BaseMessage], records: Iterable[Mapping[str, object]]) -> None:
        """Keep the records of a conversation, and the newest `MOST_CARRIED` of all."""
        beginning = _beginning(messages)
        with self._lock:
            for record in records:
                self._records[str(record.get("id"))] = (beginning, record)
            while len(self._records) > MOST_CARRIED:
                self._records.popitem(last=False)

    def of(self, messages: Sequence[BaseMessage]) -> list[Mapping[str, object]]:
        """Return what is kept for conversations that begin like this one, oldest first."""
        beginning = _beginning(messages)
        with self._lock:
            return [record for begun, record in self._records.values() if begun == beginning]


def _beginning(messages: Sequence[BaseMessage]) -> str:
    """The digest of the first two messages that are no system prompt."""
    spoken = islice((message for message in messages if not isinstance(message, SystemMessage)), 2)
    text = json.dumps([[message.type, message.content] for message in spoken], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
