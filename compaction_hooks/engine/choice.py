"""The choice among the candidates of one attempt to compact: those that may be sent, the best one, and those of the last resort.

1. It changes nothing but itself: each attempt, and each plan of one, has its own.
2. A candidate that may be sent and reaches the target ends the search; else the best is the one that covers most.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic

from compaction_hooks.messages import M
from compaction_hooks.strategies import Candidate, Goal
from compaction_hooks.strategies.candidate import rejection
from compaction_hooks.strategies.last_resort import last_resort
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")


class Choice(Generic[M]):
    """The candidates so far, in the order of the strategies.

    Attributes:
        goal: What the next strategy is asked for: it starts from the last candidate.
        rejected: The candidates that may not be sent, with the reasons.
    """

    def __init__(self, session_id: str, snapshot: Snapshot[M], goal: Goal[M]) -> None:
        self._session_id, self._snapshot, self.goal = session_id, snapshot, goal
        self.rejected: list[tuple[Candidate[M], str]] = []
        self._summary: str | None = None
        self._passing: list[Candidate[M]] = []
        self._postponed: list[Candidate[M]] = []

    @property
    def can_wait(self) -> bool:
        """Whether the view may be sent unchanged, so that only a good candidate is worth it."""
        return self._snapshot.surely_fits_window and self.goal.reason is not CompactionReason.OVERFLOW

    def add(self, candidate: Candidate[M] | None, name: str) -> bool:
        """Add the candidate of a strategy; return whether it ends the search: it may be sent, and reaches the target.

        The view of a candidate that cannot reach the target is made only if all others fail.
        """
        target = self.goal.budget.target
        if candidate is None:
            logger.debug("session %s: %s has nothing to gain", self._session_id, name)
            return False

        # Its lower bound misses the target: spare the cost of its view, and let the next strategy start from it.
        if candidate.least_tokens > target:
            logger.debug("session %s: %s alone misses the target", self._session_id, name)
            self._postponed.append(candidate)
            self.goal = replace(self.goal, start=candidate, may_send_start=False)
            return False

        passes = self.evaluate(candidate)
        self.goal = replace(self.goal, start=candidate, may_send_start=passes)
        return passes and (candidate.tokens <= target or candidate.is_enough)

    def prefer(self, summary: str) -> None:
        """Prefer the candidates with this summary, which a model wrote."""
        self._summary = summary

    def evaluate(self, candidate: Candidate[M]) -> bool:
        """Note whether a candidate may be sent, and return it."""
        why = self.reject(candidate)
        told = self._session_id, candidate.tokens, self.goal.budget.target, why or "may be sent"
        logger.debug("session %s: a view of %d tokens for a target of %d: %s", *told)
        if why is None:
            self._passing.append(candidate)
        else:
            self.rejected.append((candidate, why))
        return why is None

    def reject(self, candidate: Candidate[M]) -> str | None:
        """Return why a candidate may not be sent, or None."""
        budget = self.goal.budget
        return rejection(self._snapshot, candidate, limit=budget.limit, window=budget.window)

    def find_best(self) -> Candidate[M] | None:
        """Return the best of the candidates that may be sent; None if none may."""
        # Their rejections go in front: the event of a skipped compaction tells the last one, which is that of a complete view.
        tried, self.rejected = self.rejected, []
        for candidate in self._postponed:
            self.evaluate(candidate)
        self.rejected += tried
        return min(self._passing, key=self._rank, default=None)

    def find_fitting(self, *, shortens: bool) -> Candidate[M] | None:
        """Return a candidate that fits the window at all, since the view may not be sent unchanged; None if none does.

        Args:
            shortens: Whether parts may be shortened by force.
        """
        window = self.goal.budget.window
        fitting = (
            candidate
            for candidate in self._list_smaller(shortens=shortens)
            if rejection(self._snapshot, candidate, limit=window, window=window) is None
        )
        return next(fitting, None)

    def _list_smaller(self, *, shortens: bool) -> Iterator[Candidate[M]]:
        """Yield the rejected candidates, the best first; then, if a strategy shortens, the candidates of forced shortening."""
        rejected = sorted((candidate for candidate, _ in self.rejected), key=self._rank)
        yield from rejected
        for start in (rejected or (None,)) if shortens else ():
            for candidate in last_resort(self._snapshot, replace(self.goal, start=start)):
                self.rejected.append((candidate, ""))  # the error tells the reason
                yield candidate

    def _rank(self, candidate: Candidate[M]) -> tuple[int, bool, int]:
        """Return the rank of a candidate above the target, the best first.

        The next call needs room, so the candidate that covers most is best; then one with a model's summary; then the smallest.
        Of two with the model's summary the first is best: it shortens less.
        """
        is_models = self._summary is not None and candidate.record.summary == self._summary
        return -candidate.record.covered_runs, not is_models, 0 if is_models else candidate.tokens
