"""What the host's functions are asked at a compaction, and what they answer: `carry`, `before_compact`.

1. A function is asked once for a compaction, also for the attempts that repeat it; its answers are one value, `Told`.
2. What it answers is checked where it is asked (`runtime/tellers.py`): here all is of the right type.
3. A further function is a field of `Tellers`, its question and its answer are types here, and what it told is a field of `Told`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from compaction_hooks.messages import Value
from compaction_hooks.view import CompactionReason

__all__ = ["Advice", "AdviceFunction", "Carried", "CarryFunction", "CarryRequest", "CompactionPlan"]


@dataclass(frozen=True, eq=False, repr=False)
class Carried(Value):
    """A text of the host that comes back after each compaction.

    Attributes:
        name: Its name: a later text of the same name takes its place.
        text: The text.
        max_tokens: The most tokens that it may take, by estimate; a longer one is shortened in its middle. None: what all carried
            texts together may take.
    """

    name: str
    text: str
    max_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CarryRequest(Value):
    """The compaction that asks which texts come back.

    Attributes:
        session_id: The conversation.
        reason: The occasion.
        model: The model of the call, or None.
        messages: The whole list of the call, as the host gave it. Do not change it.
    """

    session_id: str
    reason: CompactionReason
    model: str | None
    messages: Sequence[Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionPlan(Value):
    """A compaction that is about to be made, before anything is paid for.

    Attributes:
        reason: The occasion.
        tokens_before: Size of the view in tokens.
        tokens_after: Its size behind the compaction, by estimate, with the largest summary allowed.
        compacted_messages: Messages of the host that the summary will cover; 0 without a summary.
        steps: What will be done, in order: names of the strategies.
    """

    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    compacted_messages: int
    steps: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Advice(Value):
    """What the host says to a compaction that is about to be made.

    Attributes:
        veto: Why it shall not be made now; None: it may.
        focus: The subject that the summary should pay attention to, as `compact(focus=...)`.
        facts: Facts that the summary shall have as the host's, 500 tokens of them at most.
    """

    veto: str | None = None
    focus: str | None = None
    facts: Sequence[str] = ()


CarryFunction: TypeAlias = Callable[[CarryRequest], "Iterable[Carried] | Awaitable[Iterable[Carried] | None] | None"]
"""A function for `carry=`, sync or async."""
AdviceFunction: TypeAlias = Callable[[CompactionPlan], "Advice | Awaitable[Advice | None] | None"]
"""A function for `before_compact=`, sync or async."""


class Told(NamedTuple):
    """The answers of the host for one compaction.

    Attributes:
        carried: The texts that come back, by name.
        keeps_last: Whether texts of the last record stay under the names that `carried` has not: nobody was asked, or one failed.
        facts: Facts that the summary shall have.
    """

    carried: tuple[Carried, ...] = ()
    keeps_last: bool = True
    facts: tuple[str, ...] = ()
