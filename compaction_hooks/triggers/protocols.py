"""The protocol of a trigger: the figures it reads, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from compaction_hooks import arguments
from compaction_hooks.tokens.prices import Prices


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


@arguments.validate({"reason": arguments.TEXT, "target_tokens": arguments.TOKENS.or_none()})
@dataclass(frozen=True, slots=True)
class Due:
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
