"""What an attempt to compact is asked for, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from compaction_hooks.messages import M
from compaction_hooks.triggers import Due
from compaction_hooks.view.record import CompactionReason, CompactionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of an attempt.

    Attributes:
        keep: Recent tokens to keep.
        turns: The user's last turns to keep whole, if they are more.
        may_ask: Whether the summariser may be asked; not when another caller's attempt just failed.
        must_fit: Whether a list that cannot be made to fit is an error; otherwise it is handed out unchanged, loudly.
        only_media: Whether the request was too large in bytes: media are left out, and nothing else is done.
        limit_bytes: What the provider takes, as far as it says so.
        due: The answer of the trigger, if one asked for this.
    """

    reason: CompactionReason
    keep: int
    turns: int = 0
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None
    due: Due | None = None


class CompactionOutcome(StrEnum):
    """How an attempt to compact ended."""

    COMPACTED = "compacted"
    NOTHING_TO_COMPACT = "nothing to compact"
    NO_GAIN = "no gain"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(Generic[M]):
    """What an attempt to compact gave.

    Attributes:
        messages: A new list to store or send; the list as it stood when nothing was compacted.
        record: The record now in force, or None.
        outcome: How it ended; only "compacted" changed anything.
        reason: What was the occasion.
        tokens_before, tokens_after: Size of the context in tokens, by estimate.
    """

    messages: list[M]
    record: CompactionRecord | None
    outcome: CompactionOutcome
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
