"""Everything a decision may look at, as one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Generic

from compaction_hooks.files import FileOperations
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_names
from compaction_hooks.messages import M, Message, MessageFormat, Text
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.values import dataclass
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.record import CompactionReason, CompactionRecord
from compaction_hooks.view.reductions import Reduction, by_place, still_true


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """From the estimator's tokens to the model's.

    Attributes:
        ratio: The model's tokens per estimated token, as learned from usage.
        overhead: Tokens of every request that no message shows (a hidden prefix), as learned.
        fixed: Estimated tokens of the system prompt and tools handed over beside the list.
        tools: The tools' part of `fixed`.
    """

    ratio: float = 1.0
    overhead: int = 0
    fixed: int = 0
    tools: int = 0

    def tokens(self, estimated: int) -> int:
        """Return the model's tokens for a view of `estimated` tokens, rounded up."""
        return self.overhead + math.ceil(self.ratio * (estimated + self.fixed))

    def room(self, tokens: int) -> int:
        """Return the largest estimate whose view takes at most `tokens` of the model; may be negative."""
        return math.floor((tokens - self.overhead) / self.ratio) - self.fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation(Generic[M]):
    """Everything a decision may look at.

    Attributes:
        record: The newest record true of the history, or None.
        projection: That record applied.
        pressure: The present view's size in tokens of the model, counted as far as it was.
        keep: Recent tokens to keep, of the model.
        estimator: Sizes texts and messages, before calibration.
        user_pins: By digest, what the host pinned, and the run it is in; `UNKNOWN_RUN` when that is not known.
        host_files: Files the host itself keeps track of.
        learned: What usage has taught of the model, as a record keeps it; empty when nothing.
        binds_reasoning: Whether the model refuses the reasoning that there is behind another beginning.
    """

    history: History[M]
    record: CompactionRecord | None
    projection: Projection[M]
    budget: Budget
    gauge: Gauge
    reason: CompactionReason
    pressure: int
    keep: int
    settings: CompactionSettings
    format: MessageFormat[M]
    estimator: TokenEstimator
    user_pins: Mapping[str, int] = field(default_factory=dict[str, int])
    host_files: FileOperations = field(default_factory=FileOperations)
    learned: Mapping[str, object] = field(default_factory=dict[str, object])
    binds_reasoning: bool = False

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """The parts that the view in force shows smaller; not those that were, before a rewind or an edit."""
        if self.record is None:
            return ()
        listed = self.projection.reductions
        if len(listed) == len(self.record.reductions):
            return self.record.reductions  # each of them is shown
        shown = by_place(listed)
        unsure = [item for item in self.record.reductions if shown.get((item.kind, item.run, item.ordinal)) is not item]
        if not unsure:
            return self.record.reductions
        gone = by_place(unsure).keys() - by_place(still_true(self.history, unsure)).keys()
        return tuple(item for item in self.record.reductions if (item.kind, item.run, item.ordinal) not in gone)

    @property
    def estimated(self) -> int:
        """The present view's estimate in tokens, before calibration."""
        return self.projection.tokens(self.history)

    @property
    def tokens(self) -> int:
        """The present view's size in tokens of the model, by estimate."""
        return self.gauge.tokens(self.estimated)

    def is_pinned_by_user(self, piece: int) -> bool:
        """Whether the host pinned this piece: word for word, so neither cleared nor shortened."""
        if not self.user_pins:
            return False
        names = message_names(self.history.piece(piece).message)
        name = next((name for name in names if name in self.user_pins), None)
        if name is None:
            return False
        run = self.user_pins[name]
        # What follows a summary at the head of a list has lost its place, and so has what stands behind an edit: there the
        # content alone decides.
        return self.history.run_of(piece) == run or not self._stands_in(run, name)

    def _stands_in(self, run: int, name: str) -> bool:
        """Whether a run of this list holds a message with this digest."""
        if not self.history.base <= run < self.history.run_count:
            return False
        return any(name in message_names(self.history.piece(i).message) for i in self.history.run_pieces(run))

    @property
    def covered_runs(self) -> int:
        """Runs that no longer stand in the view."""
        return max(self.history.base, self.record.covered_runs if self.record else 0)

    def text_tokens(self, text: str) -> int:
        """Return the estimate of a user message with this text, before calibration."""
        return self.estimator.estimate_message_tokens(Message(role="user", parts=(Text(text),)))
