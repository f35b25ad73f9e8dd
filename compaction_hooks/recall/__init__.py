"""Recall: what a view leaves out, readable again from the host's own list. The program, the user and the model use it."""

from compaction_hooks.recall.comparison import diff
from compaction_hooks.recall.covered import Covered, Found
from compaction_hooks.recall.loss import LossFigures, find_facts, loss_of
from compaction_hooks.recall.parts import CoveredKind, CoveredPart
from compaction_hooks.recall.tool import RecallTool

__all__ = [
    "Covered",
    "CoveredKind",
    "CoveredPart",
    "Found",
    "LossFigures",
    "RecallTool",
    "diff",
    "find_facts",
    "loss_of",
]
