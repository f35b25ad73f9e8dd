"""Triggers that compare the size of the view with a threshold, and the combination of several triggers."""

from __future__ import annotations

from dataclasses import dataclass

from compaction_hooks import arguments
from compaction_hooks.tokens.budget import RESERVE_RATIO, RESERVE_TOKENS
from compaction_hooks.triggers.protocols import Due, SnapshotFigures, Trigger


class Combinable:
    """A trigger that can be combined with another by `|`."""

    __slots__ = ()

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return why the view is to be compacted before the next model call, or None: not now."""
        raise NotImplementedError

    def __or__(self, other: Trigger) -> AnyTrigger:
        return AnyTrigger((self, other))

    def __ror__(self, other: Trigger) -> AnyTrigger:
        return AnyTrigger((other, self))


class ThresholdTrigger(Combinable):
    """A trigger that is due above a number of tokens, computed from the window."""

    __slots__ = ()

    def threshold(self, window: int) -> int:
        """Return the most tokens of the view that need no compaction."""
        raise NotImplementedError

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return a reason if the view is above the threshold, or above the limit of the input."""
        most = min(self.threshold(snapshot.window), snapshot.input_limit)
        return Due(f"above {most:,} tokens") if snapshot.tokens > most else None


@arguments.validate({"tokens": arguments.TOKENS})
@dataclass(frozen=True, slots=True)
class ReserveTrigger(ThresholdTrigger):
    """Due when less than a reserve is left of the window.

    Attributes:
        tokens: The reserve, in tokens; at most 25 % of the window.
    """

    tokens: int = RESERVE_TOKENS

    def threshold(self, window: int) -> int:
        """Return the window less the reserve."""
        return window - min(self.tokens, int(window * RESERVE_RATIO))


@arguments.validate({"ratio": arguments.RATIO})
@dataclass(frozen=True, slots=True)
class RatioTrigger(ThresholdTrigger):
    """Due above a part of the window.

    Attributes:
        ratio: The part, between 0.1 and 1.0.
    """

    ratio: float

    def threshold(self, window: int) -> int:
        """Return the tokens of this part of the window."""
        return int(window * self.ratio)


@arguments.validate({"tokens": arguments.TOKENS})
@dataclass(frozen=True, slots=True)
class TokensTrigger(ThresholdTrigger):
    """Due above a number of tokens, in any window.

    Attributes:
        tokens: The number.
    """

    tokens: int

    def threshold(self, window: int) -> int:
        """Return the number of tokens, at most the window."""
        return min(self.tokens, window)


@dataclass(frozen=True, slots=True)
class AnyTrigger(Combinable):
    """Several triggers as one: due if one of them is.

    Attributes:
        triggers: The triggers, in the order in which they are asked; the first one that is due gives the reason.
    """

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        parts = (part for trigger in self.triggers for part in parts_of(trigger))
        object.__setattr__(self, "triggers", tuple(parts))  # flat, so that the first part that is due gives the reason

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return the answer of the first trigger that is due, or None."""
        for trigger in self.triggers:
            due = trigger.due(snapshot)
            if due:
                return due
        return None


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the parts of a combined trigger, or the trigger itself."""
    return trigger.triggers if isinstance(trigger, AnyTrigger) else (trigger,)


def silent_below(trigger: Trigger, window: int, input_limit: int) -> int | None:
    """Return the size of a view, in tokens, up to which a trigger is surely not due; None if a part is to be asked each time."""
    least = input_limit
    for part in parts_of(trigger):
        if not isinstance(part, ThresholdTrigger) or type(part).due is not ThresholdTrigger.due:
            return None
        least = min(least, part.threshold(window))
    return least


def threshold_of(trigger: Trigger, window: int) -> int:
    """Return the lowest threshold among a trigger's parts, in tokens; that of `ReserveTrigger()` if no part has one."""
    thresholds = (part.threshold(window) for part in parts_of(trigger) if isinstance(part, ThresholdTrigger))
    return min(thresholds, default=0) or ReserveTrigger().threshold(window)
