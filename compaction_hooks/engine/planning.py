"""The plan of a compaction: what an attempt would do, without paying for it. Nothing is asked, stored or changed here.

The strategies propose as in an attempt. Where a summary would be asked for, a text of the largest size allowed stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compaction_hooks.engine.choice import Choice
from compaction_hooks.messages import M
from compaction_hooks.strategies import AnyStrategy, Candidate, Goal, SummaryStrategy
from compaction_hooks.strategies.candidate import broken_rule
from compaction_hooks.strategies.reduce_parts import DropMedia
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan
from compaction_hooks.telling import CompactionPlan
from compaction_hooks.view.snapshot import Snapshot


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
    choice = Choice(session_id, snapshot, goal)
    summaries: dict[str, str] = {}
    largest = 0
    chosen: Candidate[M] | None = None
    for strategy in strategies:
        candidate: Candidate[M] | None
        if isinstance(strategy, SummaryStrategy):
            plan = strategy.propose(snapshot, choice.goal)
            if plan is not None and plan.needs_model and not may_ask:
                if choice.can_wait:
                    return None
                plan = None
            candidate = None if plan is None else _stand_in(strategy, snapshot, choice.goal, plan)
            if plan is not None and candidate is not None:
                summaries[candidate.record.rendered] = "summarize" if plan.needs_model else "drop oldest"
                choice.summary = candidate.record.summary if plan.needs_model else choice.summary
                largest = max(largest, candidate.tokens)
        else:
            candidate = strategy.propose(snapshot, choice.goal)
        if choice.add(candidate, type(strategy).__name__):
            chosen = candidate
            break

    chosen = chosen or choice.find_best() or (None if choice.can_wait else choice.find_fitting(shortens=shortens))
    if chosen is None:
        return None
    # A smaller summary may spare the steps behind it.
    budget = goal.budget
    limit = budget.target if chosen.tokens <= budget.target else budget.trigger
    return _describe(snapshot, goal, chosen, summaries, max(chosen.tokens, min(largest, limit)))


def plan_without_media(snapshot: Snapshot[M], goal: Goal[M]) -> CompactionPlan | None:
    """Return the plan of an attempt that only leaves out media; None if there are none that may go."""
    candidate = propose_without_media(snapshot, goal)
    return None if candidate is None else _describe(snapshot, goal, candidate, {}, candidate.tokens)


def propose_without_media(snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate without media, after a request that was too large in bytes."""
    candidate = DropMedia().propose(snapshot, goal)
    return candidate if candidate is not None and broken_rule(snapshot, candidate) is None else None


def _stand_in(
    strategy: SummaryStrategy, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan
) -> Candidate[M] | None:
    """Return the candidate of a plan with a text of the largest size allowed as its summary."""
    text = _make_text(plan.allowance, snapshot.estimator.estimate_tokens)
    written = Summarized(text, None, unseen=len(plan.messages), is_placeholder=True)
    return strategy.from_summary(snapshot, goal, plan, written)


def _make_text(tokens: int, estimate: Callable[[str], int]) -> str:
    text = "word " * max(tokens, 1)
    return text[: len(text) * max(tokens, 1) // max(estimate(text), 1)]


def _describe(
    snapshot: Snapshot[M], goal: Goal[M], candidate: Candidate[M], summaries: dict[str, str], tokens: int
) -> CompactionPlan:
    """Return the plan that a candidate carries out.

    Args:
        summaries: By the text of a summary's message, the step that makes it.
        tokens: The size of the view, in tokens of the model, by estimate.
    """
    record, before = candidate.record, snapshot.record
    is_new = record.rendered != (before.rendered if before else "")
    new = {*record.reductions} - {*snapshot.reductions}
    is_cut = {item: item.head_chars + item.tail_chars > 0 for item in new if item.kind != "media"}
    done = {
        "clear results": not all(is_cut.values()),
        summaries.get(record.rendered, ""): is_new,
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
