"""Facts that code, not a model, carries over: which files were touched, and what the compacted part did."""

from compaction_hooks.files.lists import FileOperations, merge

__all__ = ["FileOperations", "merge"]
