"""Records of what was done by hand: they cover no message, and keep what no compaction has recorded.

A note has the shape of a record, so that it lives wherever records do. Version 0.1.0 reads it as a record that is never true of a
list, and takes its pins over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from compaction_hooks.history.digests import text_digest
from compaction_hooks.view.record import CompactionReason, CompactionRecord, Pin


def pin_note(pins: Sequence[Pin]) -> CompactionRecord:
    """Return a note of pinned messages."""
    return _note(pins=tuple(pins))


def undo_note(record_ids: Iterable[str]) -> CompactionRecord:
    """Return a note of records that were taken back."""
    return _note(takes_back=tuple(sorted(record_ids)))


def _note(pins: tuple[Pin, ...] = (), takes_back: tuple[str, ...] = ()) -> CompactionRecord:
    content = json.dumps([[[pin.run, pin.digest] for pin in pins], takes_back])
    return CompactionRecord(
        id=f"note-{text_digest(content)[:24]}",
        prompt_version=0,
        reason=CompactionReason.MANUAL,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=0,
        covered_digest="",
        seen_runs=0,
        tokens_before=0,
        tokens_after=0,
        compaction_count=0,
        last_compacted_at="",
        pins=pins,
        takes_back=takes_back,
    )
