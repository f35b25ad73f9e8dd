"""Facts that code, not a model, carries over: the touched files, and the actions in the compacted part."""

from compaction_hooks.files.lists import FileOperations, merge

__all__ = ["FileOperations", "merge"]
