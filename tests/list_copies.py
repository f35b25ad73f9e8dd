"""Copies of a host's list at one moment, to compare with the list later."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic

from compaction_hooks.messages import M


@dataclass(frozen=True, slots=True)
class ListCopy(Generic[M]):
    """A host's list at one moment: the message objects and their copies."""

    messages: list[M]
    copies: list[M]

    def is_unchanged(self, messages: Sequence[M]) -> bool:
        """Whether a list has exactly these objects, unchanged."""
        return len(messages) == len(self.messages) and self.is_beginning_of(messages)

    def is_beginning_of(self, messages: Sequence[M]) -> bool:
        """Whether a list begins with these objects, unchanged."""
        return len(messages) >= len(self.messages) and all(
            one is other and one == held for one, other, held in zip(messages, self.messages, self.copies, strict=False)
        )

    def equals_beginning_of(self, messages: Sequence[M]) -> bool:
        """Whether a list begins with equal messages, even if they are other objects."""
        return len(messages) >= len(self.copies) and all(
            one == held for one, held in zip(messages, self.copies, strict=False)
        )


@dataclass(frozen=True, slots=True)
class LastCompaction(Generic[M]):
    """The last compaction: its list, and the size it left in tokens."""

    original: ListCopy[M]
    tokens_after: int
    window: int | None


def find_difference(made: Sequence[object], wanted: Sequence[object]) -> str:
    """Return the first message in which two lists differ, in words."""
    at = next((n for n, (one, other) in enumerate(zip_longest(made, wanted)) if one != other), 0)
    one, other = (repr(several[at])[:200] if at < len(several) else "nothing" for several in (made, wanted))
    return f"message {at} is {one} instead of {other}"
