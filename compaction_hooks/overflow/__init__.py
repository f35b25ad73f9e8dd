"""Is this error a context overflow, and what does it say about the limit."""

from compaction_hooks.overflow.decision import OverflowInfo, is_context_overflow, parse_overflow
from compaction_hooks.overflow.grammar import OverflowKind

__all__ = ["OverflowInfo", "OverflowKind", "is_context_overflow", "parse_overflow"]
