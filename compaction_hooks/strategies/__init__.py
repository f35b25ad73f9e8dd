"""The ways to make a view smaller, and the protocol for one of your own.

`CompactionSettings(strategies=...)` takes them in the order in which they are tried. Each proposes a candidate; the first that
reaches the target is used, else the best of those that may be sent. One check decides which may be sent.
"""

from typing import TypeAlias

from compaction_hooks.strategies.candidate import Candidate, Goal, Strategy, shrink, shrinkable_parts
from compaction_hooks.strategies.reduce_parts import ClearToolResults, ShortenParts
from compaction_hooks.strategies.summarize import DropOldest, Summarize, SummaryStrategy
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan, plan_summary
from compaction_hooks.view.parts import Reducible, Reduction
from compaction_hooks.view.snapshot import Snapshot

__all__ = [
    "AnyStrategy",
    "Candidate",
    "ClearToolResults",
    "DropOldest",
    "Goal",
    "Reducible",
    "Reduction",
    "ShortenParts",
    "Snapshot",
    "Strategy",
    "Summarize",
    "Summarized",
    "SummaryPlan",
    "SummaryStrategy",
    "plan_summary",
    "shrink",
    "shrinkable_parts",
]

AnyStrategy: TypeAlias = Strategy | SummaryStrategy
"""A strategy that proposes a candidate at once, or one that asks for a summary first."""
