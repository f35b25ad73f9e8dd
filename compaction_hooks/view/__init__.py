"""Records, and the view: the list to send, made from messages and a record."""

from enum import StrEnum
from typing import Literal, TypeAlias

SealedReasoning: TypeAlias = Literal["auto", "drop", "keep"]
"""Whether views leave out stale reasoning: for models that are known to bind it or have refused it, for all models, or never."""
ToolRule: TypeAlias = Literal["never", "keep", "first"] | int
"""The rule for the results of one tool: never cleared, nor forgotten, cleared first, or the newest n kept."""


class CompactionReason(StrEnum):
    """The occasion of a compaction."""

    THRESHOLD = "threshold"
    OVERFLOW = "overflow"
    MANUAL = "manual"
    TOOL = "tool"

    @property
    def is_asked_for(self) -> bool:
        """Whether somebody asked for the compaction: no later call makes it again by itself."""
        return self in (CompactionReason.MANUAL, CompactionReason.TOOL)
