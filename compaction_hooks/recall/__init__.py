"""Recall: what a view leaves out, readable again from the host's own list. The program, the user and the model use it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a compaction needs some of the modules, not these
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

_MODULE_OF = {
    "Covered": "recall.covered",
    "CoveredKind": "recall.parts",
    "CoveredPart": "recall.parts",
    "Found": "recall.covered",
    "LossFigures": "recall.loss",
    "RecallTool": "recall.tool",
    "diff": "recall.comparison",
    "find_facts": "recall.loss",
    "loss_of": "recall.loss",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"compaction_hooks.{_MODULE_OF[name]}"), name)
