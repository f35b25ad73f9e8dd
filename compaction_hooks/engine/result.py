"""How an attempt to compact ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic

from compaction_hooks.messages import M
from compaction_hooks.view.record import CompactionReason, CompactionRecord, LossFigures


class CompactionOutcome(StrEnum):
    """How an attempt to compact ended."""

    COMPACTED = "compacted"
    PREVIEWED = "previewed"
    NOTHING_TO_COMPACT = "nothing to compact"
    NO_GAIN = "no gain"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(Generic[M]):
    """The result of an attempt to compact.

    Attributes:
        messages: A new list to store or send; the view as before if nothing was compacted.
        record: The record that is active now, or None; of a preview, the record that would be.
        outcome: How it ended; only "compacted" changed anything.
        reason: The occasion of the attempt.
        loss: By class of facts (constraint, request, path, url, id, number, error, task, file, process), how many the view keeps,
            how many recall reads again, and how many are lost; empty if nothing was compacted.
        tokens_before, tokens_after: Size of the context in tokens, by estimate.
    """

    messages: list[M]
    record: CompactionRecord | None
    outcome: CompactionOutcome
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    loss: Mapping[str, LossFigures] = field(default_factory=dict[str, LossFigures])

    def __repr__(self) -> str:
        """Return the outcome and the sizes, without text of the conversation."""
        size = f"{self.tokens_before:,} to {self.tokens_after:,} tokens in {len(self.messages):,} messages"
        return f"CompactionResult({str(self.outcome)!r}, {size})"
