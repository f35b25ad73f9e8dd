"""Triggers: policies that decide when to compact, by the size of the context, the time and prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from compaction_hooks import arguments
from compaction_hooks.messages import Value
from compaction_hooks.tokens.budget import RESERVE_RATIO, RESERVE_TOKENS
from compaction_hooks.tokens.windows import Prices

__all__ = [
    "AnyTrigger",
    "Due",
    "Prices",
    "RatioTrigger",
    "ReserveTrigger",
    "SnapshotFigures",
    "TokensTrigger",
    "Trigger",
]


class SnapshotFigures(Protocol):
    """The figures of a snapshot that a trigger reads. A trigger is asked only while the window is known."""

    @property
    def tokens(self) -> int:
        """Size of the view, in tokens of the model: as the provider counted it, plus an estimate of newer messages."""
        ...

    @property
    def window(self) -> int:
        """The model's context window, in tokens."""
        ...

    @property
    def input_limit(self) -> int:
        """The part of the window that the input may take, in tokens: the window less the output tokens that the call asks for."""
        ...

    @property
    def model(self) -> str | None:
        """The name of the call's model, or None if it is not known."""
        ...

    @property
    def message_count(self) -> int:
        """Messages in the view."""
        ...

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of this view that the provider read from its cache in the last call, as its usage says; None: not reported."""
        ...

    @property
    def seconds_since_last_call(self) -> float | None:
        """Seconds since the last call of this conversation began, in this process; None before the first one."""
        ...

    @property
    def prices(self) -> Prices | None:
        """The model's prices; None if they are unknown, as without genai-prices."""
        ...


@arguments.validate({"reason": arguments.TEXT, "target_tokens": arguments.TOKENS})
@dataclass(frozen=True, eq=False, repr=False)
class Due(Value):
    """The answer of a trigger when a compaction is due.

    Attributes:
        reason: A few words for events and logs, without text of the conversation.
        target_tokens: The most tokens that the view should have afterwards, at most the threshold; None: 60 % of that.
    """

    reason: str
    target_tokens: int | None = None


@runtime_checkable
class Trigger(Protocol):
    """The policy that decides when to compact a conversation.

    A pure function of the snapshot: it changes nothing, and returns the same for the same figures. If it raises, `ReserveTrigger`
    decides in its place. Above `snapshot.input_limit` a compaction is due whatever it returns.
    """

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return why the view is to be compacted before the next model call, or None: not now."""
        ...


class Combinable(Value):
    """A trigger that can be combined with another by `|`."""

    __slots__ = ()

    def __or__(self: Trigger, other: Trigger) -> AnyTrigger:
        return AnyTrigger((self, other))

    def __ror__(self: Trigger, other: Trigger) -> AnyTrigger:
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
@dataclass(frozen=True, eq=False, repr=False)
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
@dataclass(frozen=True, eq=False, repr=False)
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
@dataclass(frozen=True, eq=False, repr=False)
class TokensTrigger(ThresholdTrigger):
    """Due above a number of tokens, in any window.

    Attributes:
        tokens: The number.
    """

    tokens: int

    def threshold(self, window: int) -> int:
        """Return the number of tokens, at most the window."""
        return min(self.tokens, window)


@dataclass(frozen=True, eq=False, repr=False)
class AnyTrigger(Combinable):
    """Several triggers as one: due if one of them is.

    Attributes:
        triggers: The triggers, in the order in which they are asked; the first one that is due gives the reason.
    """

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        # Flat, so that the first part that is due gives the reason.
        object.__setattr__(self, "triggers", tuple(part for each in self.triggers for part in parts_of(each)))

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return the answer of the first trigger that is due, or None."""
        return next(filter(None, (trigger.due(snapshot) for trigger in self.triggers)), None)


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the parts of a combined trigger, or the trigger itself."""
    return trigger.triggers if isinstance(trigger, AnyTrigger) else (trigger,)


def threshold_of(trigger: Trigger, window: int) -> int:
    """Return the lowest threshold among a trigger's parts, in tokens; that of `ReserveTrigger()` if no part has one."""
    thresholds = (part.threshold(window) for part in parts_of(trigger) if isinstance(part, ThresholdTrigger))
    return min(thresholds, default=0) or ReserveTrigger().threshold(window)
