"""The plan of a compaction: what an attempt would do, without paying for it. Nothing is asked, stored or changed here.

The strategies propose as in an attempt. If a summary would be asked for, a text of the largest size allowed is in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple

from compaction_hooks.engine.choice import Choice
from compaction_hooks.messages import M
from compaction_hooks.strategies import AnyStrategy, Candidate, Goal, SummaryStrategy
from compaction_hooks.strategies.candidate import broken_rule
from compaction_hooks.strategies.reduce_parts import DropMedia
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan
from compaction_hooks.telling import CompactionPlan
from compaction_hooks.view.snapshot import Snapshot

SLACK = 0.1
"""The part by which a summary may be larger when it is sized with its message as a whole: an estimator samples long texts."""
_WORD = "word "


def plan_compaction(
    session_id: str,
    snapshot: Snapshot[M],
    goal: Goal[M],
    strategies: Sequence[AnyStrategy],
    *,
    may_ask: bool,
    shortens: bool,
) -> CompactionPlan | None:
    """Return what an attempt with these strategies would do; None if it would change nothing.

    Args:
        may_ask: Whether a summarizer may be asked.
        shortens: Whether parts may be shortened by force, in the last resort.
    """
    search = partial(_search, session_id, snapshot, goal, strategies, may_ask=may_ask, shortens=shortens)
    largest = search(is_largest=True)
    # A larger summary may gain nothing; and a smaller one may spare the steps behind it, and leave a larger view.
    found = largest if largest.chosen is not None else search(is_largest=False)
    if found.chosen is None:
        return None
    limit = goal.budget.trigger if Choice(session_id, snapshot, goal).can_wait else goal.budget.window
    return _describe(snapshot, goal, found.chosen, found.steps, max(found.chosen.tokens, min(largest.largest, limit)))


class _Found(NamedTuple, Generic[M]):
    """The candidate that an attempt would make active, or None.

    Attributes:
        steps: By summary, the step that makes it.
        largest: The size of the largest candidate with a summary.
    """

    chosen: Candidate[M] | None
    steps: dict[str, str]
    largest: int = 0


def _search(
    session_id: str,
    snapshot: Snapshot[M],
    goal: Goal[M],
    strategies: Sequence[AnyStrategy],
    *,
    may_ask: bool,
    shortens: bool,
    is_largest: bool,
) -> _Found[M]:
    choice = Choice(session_id, snapshot, goal)
    steps: dict[str, str] = {}
    largest = 0
    for strategy in strategies:
        candidate: Candidate[M] | None
        if isinstance(strategy, SummaryStrategy):
            plan = strategy.propose(snapshot, choice.goal)
            if plan is not None and plan.needs_model and not may_ask:
                if choice.can_wait:
                    return _Found(None, steps)
                plan = None
            candidate = None
            if plan is not None:
                candidate = _stand_in(strategy, snapshot, choice.goal, plan, is_largest=is_largest)
            if plan is not None and candidate is not None:
                steps[candidate.record.summary] = "summarize" if plan.needs_model else "drop oldest"
                if plan.needs_model:
                    choice.prefer(candidate.record.summary)
                largest = max(largest, candidate.tokens)
        else:
            candidate = strategy.propose(snapshot, choice.goal)
        if choice.add(candidate, type(strategy).__name__):
            return _Found(candidate, steps, largest)

    best = choice.find_best() or (None if choice.can_wait else choice.find_fitting(shortens=shortens))
    return _Found(best, steps, largest)


def plan_without_media(snapshot: Snapshot[M], goal: Goal[M]) -> CompactionPlan | None:
    """Return the plan of an attempt that only leaves out media; None if there are none that may go."""
    candidate = propose_without_media(snapshot, goal)
    return None if candidate is None else _describe(snapshot, goal, candidate, {}, candidate.tokens)


def propose_without_media(snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate without media, after a request that was too large in bytes."""
    candidate = DropMedia().propose(snapshot, goal)
    return candidate if candidate is not None and broken_rule(snapshot, candidate) is None else None


def _stand_in(
    strategy: SummaryStrategy, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, *, is_largest: bool
) -> Candidate[M] | None:
    """Return the candidate of a plan with a text in place of its summary: with all that it may have around it, or one word."""
    text = _make_text(int(plan.allowance * (1 + SLACK)) if is_largest else 1, snapshot.estimator.estimate_tokens)
    written = Summarized(text, None, unseen=len(plan.messages) if is_largest else 0, is_placeholder=True)
    return strategy.from_summary(snapshot, goal, plan, written)


def _make_text(tokens: int, estimate: Callable[[str], int]) -> str:
    """Return a text of at least so many tokens, by estimate, and hardly more."""
    words = tokens
    while estimate(text := _WORD * words) < tokens:  # an estimator may sample a long text
        words += tokens // 100 + 1
    while words > 1 and estimate(shorter := text[: len(text) * 99 // 100]) >= tokens:
        text = shorter
    return text


def _describe(
    snapshot: Snapshot[M], goal: Goal[M], candidate: Candidate[M], summaries: dict[str, str], tokens: int
) -> CompactionPlan:
    """Return the plan that a candidate carries out.

    Args:
        summaries: By summary, the step that makes it.
        tokens: The size of the view, in tokens of the model, by estimate.
    """
    record, before = candidate.record, snapshot.record
    is_new = record.summary != (before.summary if before else "")
    older = {pin.run for pin in record.pins if pin.is_optional}  # without room they would not be there at all
    new = {item for item in record.reductions if item.run not in older or item.run >= record.covered_runs}
    new -= {*snapshot.reductions}
    is_cut = {item: item.head_chars + item.tail_chars > 0 for item in new if item.kind != "media"}
    done = {
        "clear results": not all(is_cut.values()),
        summaries.get(record.summary, "summarize"): is_new,
        "shorten parts": any(is_cut.values()),
        "leave out media": len(is_cut) < len(new),
    }
    return CompactionPlan(
        reason=goal.reason,
        tokens_before=snapshot.tokens,
        tokens_after=round(tokens * snapshot.tokens / snapshot.estimated_tokens),
        compacted_messages=record.compacted_message_count if is_new else 0,
        steps=tuple(step for step, is_done in done.items() if is_done),
    )
