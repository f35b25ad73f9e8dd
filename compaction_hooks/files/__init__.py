"""Facts that code, not a model, carries over: which files were touched, and what the compacted part did."""

from compaction_hooks.files.digest import MAX_LISTED, CommandOutcome, CompactionDigest, HiddenBlock, ToolUse, digest
from compaction_hooks.files.operations import (
    FileOperations,
    calls_made,
    file_operations,
    is_failure,
    merge,
    touched_files,
)
from compaction_hooks.files.tags import file_tags, parse_file_tags, without_file_tags

__all__ = [
    "MAX_LISTED",
    "CommandOutcome",
    "CompactionDigest",
    "FileOperations",
    "HiddenBlock",
    "ToolUse",
    "calls_made",
    "digest",
    "file_operations",
    "file_tags",
    "is_failure",
    "merge",
    "parse_file_tags",
    "touched_files",
    "without_file_tags",
]
