"""A host's list as it was at one moment, to be held against what it is later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from compaction_hooks.messages import M


@dataclass(frozen=True, slots=True)
class Taken(Generic[M]):
    """A host's list as it was: the objects, and copies of what they held."""

    messages: list[M]
    copies: list[M]

    def is_unchanged(self, messages: Sequence[M]) -> bool:
        """Whether a list is this one: the very objects, unchanged, and no others."""
        return len(messages) == len(self.messages) and self.is_beginning_of(messages)

    def is_beginning_of(self, messages: Sequence[M]) -> bool:
        """Whether a list begins with the very objects, unchanged."""
        return len(messages) >= len(self.messages) and all(
            one is other and one == held for one, other, held in zip(messages, self.messages, self.copies, strict=False)
        )

    def equals_beginning_of(self, messages: Sequence[M]) -> bool:
        """Whether a list begins with equal messages, the same objects or not."""
        return len(messages) >= len(self.copies) and all(
            one == held for one, held in zip(messages, self.copies, strict=False)
        )


@dataclass(frozen=True, slots=True)
class Settled(Generic[M]):
    """The last compaction: of which list, and how much it left."""

    taken: Taken[M]
    tokens_after: int
    window: int | None
