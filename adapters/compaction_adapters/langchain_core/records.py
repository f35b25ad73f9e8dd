"""Records in a state's channel: a session's additions to it, and the union of parallel branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from compaction_hooks import CompactionSession

Records: TypeAlias = list[Mapping[str, object]]
"""Records as plain JSON."""
MOST_RECORDS: Final = 8
"""Number of newest records in a state, which bounds each checkpoint. Time travel finds older records in older checkpoints."""
_UNDONE: Final = "undone"


def union_records(left: Iterable[Mapping[str, object]] | None, right: Iterable[Mapping[str, object]] | None) -> Records:
    """Join two lists of records without duplicates, in their order: the reducer of a record channel.

    Records that either side marks as undone are left out, and all records but the newest `MOST_RECORDS`. Notes of pins stay.
    """
    joined = {str(record.get("id")): record for record in [*(left or ()), *(right or ())]}
    kept = [record for record in joined.values() if not record.get(_UNDONE)]
    records = [record for record in kept if not _is_note(record)]
    return [*(record for record in kept if _is_note(record)), *records[-MOST_RECORDS:]]


def _is_note(record: Mapping[str, object]) -> bool:
    """Return whether a record is a note of pins, which covers no messages."""
    return record.get("covered_digest") == ""


def records_update(session: CompactionSession[Any], saved: Sequence[Mapping[str, object]]) -> Records:
    """Return the update of a state's channel: the active record and notes if the state lacks them, and marks of undone ones.

    Of the records only the active one: those of other branches of the thread are in the checkpoints of these branches.

    Args:
        saved: The records in the state.
    """
    known = {str(one.get("id")) for one in saved}
    notes = [record for record in session.records if record.is_note]
    undone = {record_id for note in notes for record_id in note.takes_back} & known
    # Each undo writes a new note of all undone records, which replaces the old one.
    old = {str(one.get("id")) for one in saved if one.get("takes_back")} - {note.id for note in notes}
    record = session.record
    found = [*notes, record] if record is not None else notes
    new = [one.to_dict() for one in found if one.id not in known]
    return [*new, *({"id": record_id, _UNDONE: True} for record_id in sorted(undone | old))]
