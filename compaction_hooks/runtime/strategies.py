"""Guards around the host's strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, cast

from compaction_hooks.foreign import describe_error
from compaction_hooks.messages import M, Message
from compaction_hooks.runtime.guards import FirstWarning
from compaction_hooks.strategies import (
    AnyStrategy,
    Candidate,
    ClearToolResults,
    DropOldest,
    Goal,
    ShortenParts,
    Snapshot,
    Summarize,
    Summarized,
    SummaryPlan,
    SummaryStrategy,
)
from compaction_hooks.strategies.candidate import with_reductions
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.view_of import is_true

SHIPPED: Final = (ClearToolResults, Summarize, ShortenParts, DropOldest)


class GuardedStrategy:
    """A strategy of the host that never fails a call.

    If it raises or proposes something unusable, the next strategy is tried; the first failure is logged.
    """

    wanted: ClassVar[type] = Candidate

    def __init__(self, strategy: AnyStrategy) -> None:
        self._strategy: Any = strategy
        self._warn = FirstWarning("strategy %s failed (%s): the others go on without it")

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Any:
        """Return the plan of the host's strategy, or its candidate, made anew from its record; or None."""
        return self._ask(self.wanted, snapshot, lambda: self._strategy.propose(snapshot, goal))

    def _ask(self, wanted: type, snapshot: Snapshot[M], question: Callable[[], object]) -> Any:
        try:
            proposal = question()
            if proposal is not None and not isinstance(proposal, wanted):
                raise TypeError(f"it proposed {type(proposal).__name__}, neither a {wanted.__name__} nor None")

            if isinstance(proposal, SummaryPlan):
                _check_plan(proposal)
            if isinstance(proposal, Candidate):
                return _renew(snapshot, cast("Candidate[M]", proposal))
            return proposal
        except Exception as error:  # noqa: BLE001 - a host's strategy may raise anything
            self._warn(type(self._strategy).__name__, describe_error(error))
            return None


class GuardedSummaryStrategy(GuardedStrategy):
    """A host's strategy that asks for a summary."""

    wanted = SummaryPlan

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M] | None:
        """Return the candidate of the host's strategy, made anew from its record, or None."""
        made: Candidate[M] | None = self._ask(
            Candidate, snapshot, lambda: self._strategy.from_summary(snapshot, goal, plan, summary)
        )
        return made


def guard_strategy(strategy: AnyStrategy) -> AnyStrategy:
    """Return a strategy that cannot fail a call; those of this package need no guard."""
    if type(strategy) in SHIPPED:
        return strategy
    return GuardedSummaryStrategy(strategy) if isinstance(strategy, SummaryStrategy) else GuardedStrategy(strategy)


def _renew(snapshot: Snapshot[M], candidate: Candidate[Any]) -> Candidate[M]:
    """Return a candidate made again from its record, for this snapshot.

    Raises:
        ValueError: its record is damaged, of another conversation, or does not follow the active one.
    """
    record = CompactionRecord.from_json(candidate.record.to_json())
    active = snapshot.record.id if snapshot.record else None
    if record.parent != active or record.seen_runs != snapshot.history.run_count:
        raise ValueError("its record does not follow the active one: make it with shrink(snapshot, goal, ...)")
    if not is_true(snapshot.history, record):
        raise ValueError("its record is not true of this conversation")

    renewed = Candidate(snapshot=snapshot, record=with_reductions(record, ()), is_enough=candidate.is_enough)
    _ = renewed.view  # computed here, inside the guard, because a host's reductions may fail
    return renewed


def _check_plan(plan: SummaryPlan) -> None:
    """Check that a summary can be made for a plan.

    Raises:
        TypeError: it covers no message or leaves the summary no room.
    """
    parts = cast("Sequence[object]", plan.messages)  # of the host
    are_messages = all(isinstance(message, Message) for message in parts)
    if not are_messages or len(plan.hosts) != len(parts) or not parts or not plan.allowance > 0:
        raise TypeError(
            "its plan is damaged: make it with plan_summary(snapshot, goal), and change fields with replace()"
        )
