"""Notes: records of pins, of undone compactions, of stale reasoning and of issuers, which cover no message.

A note has the form of a record, so that every store keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compaction_hooks.history.digests import text_digest
from compaction_hooks.view.record import CompactionReason, CompactionRecord, Pin, StaleRuns


def pin_note(pins: Sequence[Pin]) -> CompactionRecord:
    """Return a note of pinned messages."""
    return _note(tuple(pins))


def undo_note(record_ids: Iterable[str], cooldown_tokens: int, cooldown_window: int) -> CompactionRecord:
    """Return a note of records that were undone.

    Args:
        cooldown_tokens: While the context is smaller than this (tokens), there is no threshold compaction; 0: no cooldown. The note
            has it as `tokens_before`.
        cooldown_window: The window for which the cooldown applies (tokens), as `tokens_after`.
    """
    return _note((), tuple(sorted(record_ids)), cooldown_tokens, cooldown_window)


def reasoning_note(record_id: str | None, stale: StaleRuns, models: Iterable[str | None]) -> CompactionRecord:
    """Return a note of the reasoning that was made behind other views than a record's, and of the models that refused such."""
    names = tuple(sorted(model or "" for model in models))
    content = json.dumps([record_id, stale, names])
    return replace(_note(()), id=_name(content), parent=record_id, stale_runs=stale, binding_models=names)


def issuer_note(digest: str, model: str) -> CompactionRecord:
    """Return a note of the model that made a sealed summary of the provider's own, which its digest names."""
    return replace(_note(()), id=_name(json.dumps([digest, model])), parent=digest, binding_models=(model,))


def _name(content: str) -> str:
    return f"note-{text_digest(content)[:24]}"


def _note(
    pins: tuple[Pin, ...], takes_back: tuple[str, ...] = (), tokens_before: int = 0, tokens_after: int = 0
) -> CompactionRecord:
    sizes = [tokens_before, tokens_after] if tokens_before else []
    content = json.dumps([[[pin.run, pin.digest] for pin in pins], takes_back, *sizes])
    return CompactionRecord(
        id=_name(content),
        prompt_version=0,
        reason=CompactionReason.MANUAL,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=0,
        covered_digest="",
        seen_runs=0,
        tokens_before=tokens_before,
        tokens_after=tokens_after,
        compaction_count=0,
        last_compacted_at="",
        pins=pins,
        takes_back=takes_back,
    )
