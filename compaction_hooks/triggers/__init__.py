"""Triggers: policies that decide when to compact, by the size of the context, the time and prices."""

from compaction_hooks.tokens.windows import Prices
from compaction_hooks.triggers.thresholds import (
    AnyTrigger,
    Due,
    RatioTrigger,
    ReserveTrigger,
    SnapshotFigures,
    TokensTrigger,
    Trigger,
)

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
