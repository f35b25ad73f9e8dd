"""The readable twin of a sealed summary: an extract of the messages before it."""

from __future__ import annotations

from compaction_hooks.messages import M
from compaction_hooks.summary.extractive import summarize_by_rule
from compaction_hooks.view.native import covered_pieces
from compaction_hooks.view.snapshot import Snapshot


def write_twin(snapshot: Snapshot[M], piece: int, earlier: tuple[int, str], max_tokens: int) -> str:
    """Return the readable twin of a sealed summary; "" if the list has nothing before it.

    Args:
        piece: The piece with the sealed summary.
        earlier: The first piece after the newest summary of the provider's own before it, and the text of that summary.
        max_tokens: The most tokens of the twin, by estimate.
    """
    history, record = snapshot.history, snapshot.record
    first, previous = earlier
    if record is not None and record.summary:
        head = history.summary_piece
        covered = covered_pieces(history, record.covered_runs) if head is None else head + 1
        if first <= covered <= piece:
            first, previous = covered, record.summary
    messages = [each.message for each in history.pieces(first, piece) if each.message.role != "system"]
    return summarize_by_rule(messages, previous or None, max_tokens) if messages else previous
