"""Guards around the host's strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from compaction_hooks.errors import describe_error
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
    Strategy,
    Summarize,
    Summarized,
    SummaryPlan,
    SummaryStrategy,
)
from compaction_hooks.strategies.candidate import with_reductions
from compaction_hooks.view.projection import is_true
from compaction_hooks.view.record import CompactionRecord

S = TypeVar("S")
T = TypeVar("T")

SHIPPED: Final = (ClearToolResults, Summarize, ShortenParts, DropOldest)


class _Guard(Generic[S]):
    """A strategy of the host that never fails a call.

    If it raises or proposes something unusable, the next strategy is tried; the first failure is logged.
    """

    def __init__(self, strategy: S) -> None:
        self._strategy = strategy
        self._warn = FirstWarning("strategy %s failed (%s): the others go on without it")

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - a host's strategy may raise anything
            self._warn(type(self._strategy).__name__, describe_error(error))
            return None


class GuardedStrategy(_Guard[Strategy]):
    """A host's strategy that proposes a candidate at once."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the candidate of the host's strategy, made anew from its record, or None."""
        return self._ask(lambda: _verify_candidate(snapshot, self._strategy.propose(snapshot, goal)))


class GuardedSummaryStrategy(_Guard[SummaryStrategy]):
    """A host's strategy that asks for a summary."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of the host's strategy, or None."""
        return self._ask(lambda: _verify_plan(self._strategy.propose(snapshot, goal)))

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M] | None:
        """Return the candidate of the host's strategy, made anew from its record, or None."""
        return self._ask(
            lambda: _verify_candidate(snapshot, self._strategy.from_summary(snapshot, goal, plan, summary))
        )


def guard_strategy(strategy: AnyStrategy) -> AnyStrategy:
    """Return a strategy that cannot fail a call; those of this package need no guard."""
    if type(strategy) in SHIPPED:
        return strategy
    return GuardedSummaryStrategy(strategy) if isinstance(strategy, SummaryStrategy) else GuardedStrategy(strategy)


def _verify_candidate(snapshot: Snapshot[M], candidate: Any) -> Candidate[M] | None:
    """Return a candidate made again from its record, for this snapshot.

    Raises:
        TypeError: it is no candidate.
        ValueError: its record is damaged, of another conversation, or does not follow the active one.
    """
    if candidate is None:
        return None
    if not isinstance(candidate, Candidate):
        raise TypeError(f"it proposed {type(candidate).__name__}, neither a Candidate nor None")
    record = CompactionRecord.from_json(candidate.record.to_json())
    active = snapshot.record.id if snapshot.record else None
    if record.parent != active or record.seen_runs != snapshot.history.run_count:
        raise ValueError("its record does not follow the active one: make it with reduce(snapshot, goal, ...)")
    if not is_true(snapshot.history, record):
        raise ValueError("its record is not true of this conversation")
    verified = Candidate(snapshot=snapshot, record=with_reductions(record, ()), is_enough=candidate.is_enough)
    _ = verified.projection  # computed here, inside the guard, because a host's reductions may fail
    return verified


def _verify_plan(plan: Any) -> SummaryPlan | None:
    """Return the plan if a summary can be made for it.

    Raises:
        TypeError: it is no plan, or it covers no message or leaves the summary no room.
    """
    if plan is None:
        return None
    if not isinstance(plan, SummaryPlan):
        raise TypeError(f"it proposed {type(plan).__name__}, neither a SummaryPlan nor None")
    parts: Sequence[object] = plan.messages
    are_messages = all(isinstance(message, Message) for message in parts)
    if are_messages and len(plan.hosts) == len(parts) > 0 and plan.allowance > 0:
        return plan
    raise TypeError("its plan is damaged: make it with plan_summary(snapshot, goal), and change fields with replace()")
