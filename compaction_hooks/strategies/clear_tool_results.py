"""Clear old tool results: a marker takes their place. No model is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compaction_hooks import arguments
from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate, Goal, reduce, unpinned_parts
from compaction_hooks.view.markers import MARKER_CHARS, clearing_marker
from compaction_hooks.view.parts import Reducible, ToolRule
from compaction_hooks.view.reasoning import newest_reasoning
from compaction_hooks.view.snapshot import Snapshot

_TOKENS = arguments.whole("tokens", least=0)


@arguments.validate({"protect_tokens": _TOKENS, "minimum_gain_tokens": _TOKENS})
@dataclass(frozen=True, slots=True)
class ClearToolResults:
    """Clear tool results: not the newest ones, not those that the model has not seen yet, and none against their tool's rule.

    Attributes:
        protect_tokens: The tokens of newest results that are not cleared; None: 40,000, at most 20 % of the window.
        minimum_gain_tokens: The least tokens to save, because a change costs the provider's prompt cache; None: 20,000, at most
            10 % of the window.
    """

    protect_tokens: int | None = None
    minimum_gain_tokens: int | None = None

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the view with old results cleared; None if that gains too little to be worth a new prefix."""
        protect = goal.budget.protect_results if self.protect_tokens is None else self.protect_tokens
        minimum = goal.budget.minimum_clear if self.minimum_gain_tokens is None else self.minimum_gain_tokens
        chosen = results_to_clear(
            unpinned_parts(snapshot, goal, results_only=True),
            protect_tokens=int(protect / snapshot.ratio),
            rules=goal.tool_rules,
            last_run=snapshot.history.run_count - 1,
        )
        chosen = _prefer_free(chosen, snapshot, goal, minimum)
        if _saved(chosen, snapshot) < minimum:
            return None
        most_saved = sum(part.tokens + 1 for part in chosen)  # estimates of parts are rounded up
        return reduce(snapshot, goal, [part.reduction() for part in chosen], most_saved=most_saved)


def _saved(parts: Iterable[Reducible], snapshot: Snapshot[M]) -> float:
    return sum(part.tokens for part in parts) * snapshot.ratio


def _prefer_free(chosen: list[Reducible], snapshot: Snapshot[M], goal: Goal[M], minimum: int) -> list[Reducible]:
    """Return the results behind all reasoning if they are enough, since a model that binds it refuses it behind a cleared one."""
    if not snapshot.binds_reasoning:
        return chosen
    newest = newest_reasoning(snapshot.history, snapshot.projection.stale)
    free = [part for part in chosen if part.run > newest]
    needed = max(minimum, snapshot.tokens - goal.budget.target)
    return free if _saved(free, snapshot) >= needed else chosen


def results_to_clear(
    results: Sequence[Reducible], *, protect_tokens: int, rules: Mapping[str, ToolRule], last_run: int
) -> list[Reducible]:
    """Choose the tool results to clear; both lists are oldest first.

    Not the newest `protect_tokens` of results, nor the results of run `last_run` (the model has not seen them yet), nor
    those that their tool's rule keeps. A result the size of its marker is not worth clearing.
    """
    chosen: list[Reducible] = []
    newer_tokens, newer_of_tool = 0, Counter[str]()
    for part in reversed(results):
        rule = rules.get(part.tool)
        is_kept = rule == "never" or (isinstance(rule, int) and newer_of_tool[part.tool] < rule)
        is_protected = rule != "first" and newer_tokens < protect_tokens
        newer_of_tool[part.tool] += 1
        newer_tokens += part.tokens
        if is_kept or is_protected or part.run >= last_run or part.ordinal < 0:
            continue
        marker_chars = MARKER_CHARS if part.handles is not None else len(clearing_marker(part.text))
        # A result of its marker's size was cleared before; short results gain nothing.
        if part.shown_chars > marker_chars and len(part.text) > 2 * marker_chars and part.tokens > marker_chars // 2:
            chosen.append(part)
    return chosen[::-1]
