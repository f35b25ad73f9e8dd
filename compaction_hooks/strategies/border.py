"""The steps just before the recent messages: some stay in room that the user's words leave of the target, up to a summary's size.

1. Only at a threshold: after an overflow, and by hand, a smaller view is wanted than the target.
2. A step that does not fit whole stays with its long results and arguments shortened, as far as its tools' rules allow that: none
   that is pinned, and none longer than the view shows it already.
3. They do not begin with an answer without its question.
4. Of equal tokens, messages next to the recent ones are worth more to the agent's next steps than more summary (docs/judged.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Goal, list_able
from compaction_hooks.strategies.reduce_parts import SHORTENING_SLACK, choose_shortened
from compaction_hooks.view.parts import OF_TOOLS, Reducible, Reduction, by_name, measure
from compaction_hooks.view.snapshot import Snapshot

MOST_STEPS = 20
"""The most steps that are tried: a summary has room for fewer."""
LEAST_TOKENS = 150
"""A step is not shortened to fewer tokens than these: what is left of it would say little."""


class Border(NamedTuple):
    """The steps that stay before the recent messages.

    Attributes:
        run: The first run that is kept.
        reductions: The parts that are shown smaller.
        tokens: The size of these steps, before calibration.
    """

    run: int
    reductions: tuple[Reduction, ...] = ()
    tokens: int = 0


def extend(
    snapshot: Snapshot[M], goal: Goal[M], run: int, earlier: Iterable[int], size: Callable[[int], int], room: int
) -> Border:
    """Return the steps that stay before run `run`, if a room of so many tokens is left for them.

    Args:
        earlier: The runs before it that the kept messages may begin with, the newest first.
        size: Returns the tokens of all that stays if the messages are kept from a run on, before calibration.
        room: In tokens before calibration.
    """
    border, kept = Border(run), size(run)
    for _, first in zip(range(MOST_STEPS), earlier, strict=False):
        tokens = size(first) - kept
        if tokens <= room:
            border = Border(first, (), tokens)
            continue

        parts, hidden = _list_parts(snapshot, range(first, border.run))
        tokens -= hidden
        made = choose_shortened(parts, excess_tokens=tokens - int(room * (1 - SHORTENING_SLACK)), rules=goal.tool_rules)
        shortened = tokens - _saved(parts, made)
        if border.tokens + LEAST_TOKENS <= shortened <= room:
            border = Border(first, tuple(made), shortened)
        break
    return border


def _list_parts(snapshot: Snapshot[M], runs: range) -> tuple[list[Reducible], int]:
    """Return the results and arguments of some runs that may be shown smaller, as the view shows them, and the tokens by which it
    shows them smaller already.
    """
    history, estimate = snapshot.history, snapshot.estimator.estimate_message_tokens
    able = list_able(snapshot, runs, OF_TOOLS)
    parts = [*measure(history, able, estimate, snapshot.view.reduced)]
    whole = measure(history, able, estimate) if snapshot.view.reduced else parts
    return parts, sum(part.tokens for part in whole) - sum(part.tokens for part in parts)


def _saved(parts: Iterable[Reducible], reductions: Iterable[Reduction]) -> int:
    """Return about the tokens that reductions save."""
    made = by_name(reductions)
    shown = [(part, len(made[part.name].apply(part.text))) for part in parts if part.name in made]
    return sum(int(part.tokens * (1 - chars / part.shown_chars)) for part, chars in shown)
