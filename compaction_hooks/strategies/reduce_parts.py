"""Clear old tool results, shorten parts to their beginnings and ends, leave out images and documents. No model is asked."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compaction_hooks import arguments
from compaction_hooks.messages import M, Value
from compaction_hooks.strategies.candidate import Candidate, Goal, find_parts, list_whole, shrink, shrinkable_parts
from compaction_hooks.tokens.estimator import find_media
from compaction_hooks.view import ToolRule
from compaction_hooks.view.parts import MEDIA, Reducible, Reduction, text_of
from compaction_hooks.view.reasoning import newest_reasoning
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import HEAD_RATIO, HINT_TOKENS, MARKER_CHARS, MINIMUM_KEPT_CHARS, clearing_marker

BYTES_SLACK = 0.1
"""The part of a limit in bytes for the content that neutral messages do not have: JSON's own characters, tools, reasoning."""
LEAST_KEPT_CHARS = 80
"""The least characters of a part in the last resort: one line, so that a reader can tell its subject."""
MARKER_TOKENS = 19
"""Estimate of the marker in a shortened text of a million characters; shorter texts have a shorter one."""
SHORTENING_SLACK = 0.03
"""The part of the room that is left over when parts are shortened: a long text is sized by samples, and its ends may be denser."""

_TOKENS = arguments.whole("tokens", least=0)


@arguments.validate({"protect_tokens": _TOKENS, "minimum_gain_tokens": _TOKENS})
@dataclass(frozen=True, eq=False, repr=False)
class ClearToolResults(Value):
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
            shrinkable_parts(snapshot, goal, results_only=True),
            protect_tokens=int(protect / snapshot.ratio),
            rules=goal.tool_rules,
            last_run=snapshot.history.run_count - 1,
        )
        chosen = _prefer_free(chosen, snapshot, goal, minimum)

        if _saved(chosen, snapshot) < minimum:
            return None
        most_saved = sum(part.tokens + 1 for part in chosen)  # estimates of parts are rounded up
        return shrink(snapshot, goal, [part.reduction() for part in chosen], most_saved=most_saved)


def _saved(parts: Iterable[Reducible], snapshot: Snapshot[M]) -> float:
    return sum(part.tokens for part in parts) * snapshot.ratio


def _prefer_free(chosen: list[Reducible], snapshot: Snapshot[M], goal: Goal[M], minimum: int) -> list[Reducible]:
    """Return the results behind all reasoning if they are enough, since a model that binds it refuses it behind a cleared one."""
    if not snapshot.binds_reasoning:
        return chosen
    newest = newest_reasoning(snapshot.history, snapshot.view.stale)
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


@arguments.validate({"least_chars": arguments.whole("characters")})
@dataclass(frozen=True, eq=False, repr=False)
class ShortenParts(Value):
    """Shorten tool results and arguments until the view fits the target, the largest first, and no more than needed.

    Texts of users and the assistant and the system prompt stay as they are.

    Attributes:
        least_chars: The least characters of each part that stay.
    """

    least_chars: int = MINIMUM_KEPT_CHARS

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the candidate so far, or the active view, with its largest parts shortened; None if none can be shortened."""
        return shorten(snapshot, goal, shrinkable_parts(snapshot, goal), goal.budget.target, self.least_chars)


@dataclass(frozen=True, eq=False, repr=False)
class DropMedia(Value):
    """Leave out as many media of users and tools as must go.

    There are three more ways in which a view has an image no longer: the cut is behind it; its result was cleared or shortened,
    which drops the media of the result too; or it is before a summary of the provider's own.

    Attributes:
        excess_tokens: The tokens that the view must lose, by estimate before calibration: the largest media go first, of equal ones
            the oldest. None: the provider refused the request for its bytes: the oldest go, as many as exceed `goal.limit_bytes`,
            or half of them if it is not known.
    """

    excess_tokens: int | None = None

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the candidate so far, or the active view, without these media; None without any."""
        sizes = [(part, part.tokens) for part in find_parts(snapshot, goal, MEDIA)]
        excess = self.excess_tokens
        if excess is None:
            sizes = [(part, part.shown_chars) for part, _ in sizes]
            limit = goal.limit_bytes
            above = 0 if limit is None else view_chars(snapshot) - chars_within(limit)
            # The excess may be in what the messages do not show.
            excess = above if above > 0 else sum(size for _, size in sizes) // 2
        else:
            sizes.sort(key=lambda pair: -pair[1])
        requests = {*snapshot.older_requests}
        sizes.sort(key=lambda pair: pair[0].piece in requests)  # those of the current request go last

        chosen: list[Reduction] = []
        for part, saved in sizes:
            if excess > 0 and saved > 0:
                chosen.append(part.reduction())
                excess -= saved
        return shrink(snapshot, goal, chosen)


def chars_within(limit_bytes: int) -> int:
    """Return how many characters the messages of a request may have under a limit in bytes."""
    return int(limit_bytes * (1 - BYTES_SLACK))


def view_chars(snapshot: Snapshot[M]) -> int:
    """Return the characters that the messages of the active view take in a request, without its own syntax."""
    parts = [part for message in snapshot.neutral_view(snapshot.view) for part in message.parts]
    return sum(len(text_of(part)) for part in parts) + sum(
        media.data_chars for part in parts for media in find_media(part)
    )


def shorten(
    snapshot: Snapshot[M], goal: Goal[M], parts: Sequence[Reducible], limit: int, least_chars: int
) -> Candidate[M] | None:
    excess = excess_tokens(snapshot, goal, limit)
    chosen = choose_shortened(parts, excess_tokens=excess, rules=goal.tool_rules, least_chars=least_chars)
    return shrink(snapshot, goal, chosen)


def most_gain(snapshot: Snapshot[M], goal: Goal[M], cut: int) -> int:
    """Return about how many tokens less `ShortenParts` can make the messages from run `cut` on, if need be."""
    parts = list_whole(snapshot, cut)
    able = [part for part in parts if part.ordinal >= 0 and goal.tool_rules.get(part.tool) != "never"]
    return max(_gain(able, MINIMUM_KEPT_CHARS) - int(snapshot.room(goal.budget.target) * SHORTENING_SLACK), 0)


def excess_tokens(snapshot: Snapshot[M], goal: Goal[M], limit: int) -> int:
    """Return the tokens that the candidate so far, or the active view, must lose to fit, by estimate before calibration."""
    estimated = goal.start.view.tokens(snapshot.history) if goal.start else snapshot.estimated
    room = snapshot.room(limit)
    return estimated - room + max(0, int(room * SHORTENING_SLACK))


def choose_shortened(
    parts: Sequence[Reducible],
    *,
    excess_tokens: int,
    rules: Mapping[str, ToolRule],
    least_chars: int = MINIMUM_KEPT_CHARS,
) -> list[Reduction]:
    """Choose how much of each part to keep so that together they lose at least `excess_tokens`, the largest first.

    All shortened parts get about the same length: the largest cap, in characters, that gains enough. Parts of tools whose rule
    is "never", and parts shown with `least_chars` or less, stay as they are. If even `least_chars` does not gain enough, return
    the reductions to that: the caller checks the size.
    """
    able = [p for p in parts if p.shown_chars > least_chars and p.ordinal >= 0 and rules.get(p.tool) != "never"]
    caps = range(least_chars + 1, max((part.shown_chars for part in able), default=least_chars) + 1)
    low = least_chars + bisect_left(caps, True, key=lambda cap: _gain(able, cap) < excess_tokens)
    head = int(low * HEAD_RATIO)
    capped = [(part, part.reduction(head, low - head)) for part in able if part.shown_chars > low]
    return [reduction for part, reduction in capped if len(reduction.apply(part.text)) < part.shown_chars]


def _gain(parts: Iterable[Reducible], cap_chars: int) -> int:
    """Return the tokens that a cap on characters saves, if each part has an even density."""
    larger = [part for part in parts if part.shown_chars > cap_chars]
    hints = HINT_TOKENS * sum(part.handles is not None for part in larger)
    return sum(int(part.tokens * (1 - cap_chars / part.shown_chars)) - MARKER_TOKENS for part in larger) - hints
