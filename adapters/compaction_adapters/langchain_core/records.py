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

    Left out is what either side says is undone, and all records but the newest `MOST_RECORDS`. Notes of pins stay.
    """
    joined = {str(record.get("id")): record for record in [*(left or ()), *(right or ())]}
    kept = [record for record in joined.values() if not record.get(_UNDONE)]
    records = [record for record in kept if not _is_note(record)]
    return [*(record for record in kept if _is_note(record)), *records[-MOST_RECORDS:]]


def _is_note(record: Mapping[str, object]) -> bool:
    """Return whether this only keeps pins: it covers nothing."""
    return record.get("covered_digest") == ""


def records_update(session: CompactionSession[Any], held: Sequence[Mapping[str, object]]) -> Records:
    """Return what a state's channel must be told: the record in force and notes of work by hand where it lacks them, and what goes.

    Only the record in force: those of other branches of the thread are in the checkpoints of these branches.

    Args:
        held: The records the state holds.
    """
    known = {str(one.get("id")) for one in held}
    notes = [record for record in session.records if record.is_note]
    undone = {record_id for note in notes for record_id in note.takes_back} & known
    # A note of what was undone is written anew with each undo.
    old = {str(one.get("id")) for one in held if one.get("takes_back")} - {note.id for note in notes}
    record = session.record
    found = [*notes, record] if record is not None else notes
    # Through JSON: a checkpointer's serialiser would keep tuples and enums, and warn of them or refuse them.
    new = [json.loads(json.dumps(one.to_dict())) for one in found if one.id not in known]
    return [*new, *({"id": record_id, _UNDONE: True} for record_id in sorted(undone | old))]
