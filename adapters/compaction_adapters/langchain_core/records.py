"""Records in a state's channel: what a session has to add to it, how those of parallel branches join."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from compaction_hooks import CompactionSession

Records: TypeAlias = list[Mapping[str, object]]
"""Records as plain JSON."""
MOST_RECORDS: Final = 8
"""Records kept in a state, the newest. Time travel finds older ones in older checkpoints, and each checkpoint stays bounded."""
_UNDONE: Final = "undone"


def union_records(left: Iterable[Mapping[str, object]] | None, right: Iterable[Mapping[str, object]] | None) -> Records:
    """Join two lists of records, each once, in the order they came: the reducer of a record channel.

    Left out is what either side says is undone, and all but the newest `MOST_RECORDS`.
    """
    joined = {str(record.get("id")): record for record in [*(left or ()), *(right or ())]}
    return [record for record in joined.values() if not record.get(_UNDONE)][-MOST_RECORDS:]


def records_update(session: CompactionSession[Any], held: Sequence[Mapping[str, object]]) -> Records:
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
