"""The instructions for one attempt to compact."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from compaction_hooks.files import FileOperations
from compaction_hooks.tokens.budget import KEEP_RECENT_RATIO, MANUAL_KEEP_RATIO, Budget
from compaction_hooks.triggers import Due
from compaction_hooks.view.record import CompactionReason, CompactionRecord
from compaction_hooks.view.snapshot import Snapshot


class Order(NamedTuple):
    """Instructions for one attempt to compact.

    Attributes:
        keep: Recent tokens to keep; None: as the budget says for this reason, and the user's last turns if they are more.
        may_ask: Whether the summarizer may be called; not if another caller's attempt has just failed.
        must_fit: Whether a list that cannot be made to fit raises an error; if not, it goes out unchanged, with an event.
        only_media: Whether the request was too large in bytes: leave media out, and do nothing else.
        limit_bytes: The provider's limit in bytes; None if unknown: half of the media are left out, so that the next images do not
            change the part of the view that the provider has cached.
        is_preview: Whether to end before the record becomes active, without events.
        previewed: The record of a preview to make active, if it still gives a good view; None: make a new one.
        due: The answer of the trigger, if a trigger asked for this.
        host_files: The files that the host keeps track of.
    """

    reason: CompactionReason
    keep: int | None = None
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None
    is_preview: bool = False
    previewed: CompactionRecord | None = None
    due: Due | None = None
    host_files: FileOperations = FileOperations()

    def keep_tokens(self, snapshot: Snapshot[Any], budget: Budget) -> int:
        """Return the recent tokens to keep. After an overflow the context is larger than estimated: a part of it at most."""
        if self.keep is not None:
            return self.keep
        if self.reason is CompactionReason.OVERFLOW:
            return min(budget.emergency_keep, int(snapshot.tokens * KEEP_RECENT_RATIO))
        most = int(snapshot.tokens * MANUAL_KEEP_RATIO) if self.reason is CompactionReason.MANUAL else budget.keep
        from compaction_hooks.strategies.summary_plan import turns_tokens  # needed only when something is due

        turns = turns_tokens(snapshot.history, budget.keep_turns)
        return max(min(budget.keep, most), math.ceil(snapshot.ratio * turns))
