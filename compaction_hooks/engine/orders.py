"""What is asked of an attempt to compact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import FlightEnd
from compaction_hooks.tokens.budget import KEEP_RECENT_RATIO, MANUAL_KEEP_RATIO, Budget
from compaction_hooks.triggers import Due
from compaction_hooks.view.record import CompactionReason
from compaction_hooks.view.snapshot import Snapshot


class Order(NamedTuple):
    """What is asked of an attempt.

    Attributes:
        keep: Recent tokens to keep.
        turns: The user's last turns to keep whole, if they are more.
        may_ask: Whether the summariser may be asked; not when another caller's attempt just failed.
        must_fit: Whether a list that cannot be made to fit is an error; otherwise it is handed out unchanged, loudly.
        only_media: Whether the request was too large in bytes: media are left out, and nothing else is done.
        limit_bytes: What the provider takes, as far as it says so.
        due: The answer of the trigger, if one asked for this.
    """

    reason: CompactionReason
    keep: int
    turns: int = 0
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None
    due: Due | None = None


OrderFor: TypeAlias = Callable[[Snapshot[M], Budget], Order]
"""What is asked of an attempt, for the list as it is when that begins."""


def manual_order(keep_recent_tokens: int | None, focus: str | None) -> OrderFor[Any]:
    """Return what a host asks for that compacts by hand."""

    def order(snapshot: Snapshot[Any], budget: Budget) -> Order:
        keep, turns = keep_recent_tokens, 0
        if keep is None:
            keep, turns = min(budget.keep, int(snapshot.tokens * MANUAL_KEEP_RATIO)), budget.keep_turns
        return Order(reason=CompactionReason.MANUAL, keep=keep, turns=turns, focus=focus, must_fit=True)

    return order


def automatic_order(
    reason: CompactionReason, *, may_ask: bool, must_fit: bool = False, due: Due | None = None
) -> OrderFor[Any]:
    """Return what is asked for when a compaction is due."""
    return lambda snapshot, budget: Order(
        reason=reason,
        keep=_keep(snapshot, budget, reason),
        turns=0 if reason is CompactionReason.OVERFLOW else budget.keep_turns,
        may_ask=may_ask,
        must_fit=must_fit,
        due=due,
    )


def emergency_order(others_end: FlightEnd | None, *, must_fit: bool) -> OrderFor[Any]:
    """Return an order that keeps less, because the provider said that the context is too large."""
    return automatic_order(CompactionReason.OVERFLOW, may_ask=others_end != "failed", must_fit=must_fit)


def lighter_order(limit_bytes: int | None = None) -> OrderFor[Any]:
    """Return an order that leaves media out, because the provider refuses so many bytes; without a limit half of them.

    Half, so that the next images change nothing in the part of the view that the provider has cached.
    """
    return lambda _, __: Order(reason=CompactionReason.OVERFLOW, keep=0, only_media=True, limit_bytes=limit_bytes)


def _keep(snapshot: Snapshot[M], budget: Budget, reason: CompactionReason) -> int:
    """Return the recent tokens to keep; after an overflow a part of the context, which is larger than it seems, at most."""
    if reason is CompactionReason.OVERFLOW:
        return min(budget.emergency_keep, int(snapshot.tokens * KEEP_RECENT_RATIO))
    return budget.keep
