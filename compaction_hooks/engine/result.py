"""Reports to the host: how an attempt to compact ended, and how full the context is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from compaction_hooks.engine.totals import SessionTotals
from compaction_hooks.messages import M, Usage, Value
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.record import CompactionRecord


class CompactionOutcome(StrEnum):
    """How an attempt to compact ended."""

    COMPACTED = "compacted"
    PREVIEWED = "previewed"
    NOTHING_TO_COMPACT = "nothing to compact"
    NO_GAIN = "no gain"
    FAILED = "failed"
    ABORTED = "aborted"
    VETOED = "vetoed"


@dataclass(frozen=True, kw_only=True, eq=False)
class CompactionResult(Value, Generic[M]):
    """The result of an attempt to compact.

    Attributes:
        messages: A new list to store, with each message by itself; the view as before if nothing was compacted. To send it, give
            it to `transform_context` or `call`.
        record: The record that is active now, or None; of a preview, the record that would be.
        outcome: How it ended; only "compacted" changed anything.
        reason: The occasion of the attempt.
        tokens_before, tokens_after: Size of the context in tokens, by estimate.
    """

    messages: list[M]
    record: CompactionRecord | None
    outcome: CompactionOutcome
    reason: CompactionReason
    tokens_before: int
    tokens_after: int

    def __repr__(self) -> str:
        """Return the outcome and the sizes, without text of the conversation."""
        size = f"{self.tokens_before:,} to {self.tokens_after:,} tokens in {len(self.messages):,} messages"
        return f"CompactionResult({str(self.outcome)!r}, {size})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SessionState(Value):
    """How full the context is, and what its calls and summaries cost, for a status line.

    Attributes:
        context_tokens: Size of the list last handed out, in tokens; before the first call that of the list given to `load`, if any.
        context_window: The model's window in tokens; None when unknown.
        trigger_tokens: Above this the next call compacts; None when the window is unknown.
        fraction: `context_tokens / context_window`; None when either is unknown.
        is_estimate: Whether no usage report has measured that list; right after a compaction it is an estimate.
        compaction_count: Compactions that led to the present view.
        breaker: "closed", or "open: " and the reason why the summarizer is not called.
        is_loaded: Whether the store's records are loaded: after the first call or `load()`; without a store always.
        summary_usage: The cost of all summaries: those made in this process, also discarded, failed, previewed and undone ones,
            and those of the records that were loaded or imported. Zero before the first one, and for summaries by rule.
        totals: What was sent in this process, since the session was opened.
    """

    context_tokens: int | None
    context_window: int | None
    trigger_tokens: int | None
    fraction: float | None
    is_estimate: bool
    compaction_count: int
    breaker: str
    is_loaded: bool
    summary_usage: Usage
    totals: SessionTotals
