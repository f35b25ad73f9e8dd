"""Recognition of context overflows in providers' errors, and the numbers that such an error states."""

from compaction_hooks.overflow.decision import OverflowInfo, is_context_overflow, parse_overflow
from compaction_hooks.overflow.grammar import OverflowKind

__all__ = ["OverflowInfo", "OverflowKind", "is_context_overflow", "parse_overflow"]
