"""The error of a recorded session that cannot be read or replayed."""

from __future__ import annotations

from pathlib import Path

from compaction_hooks.arguments import format_path
from compaction_hooks.errors import CompactionError


class ReplayError(CompactionError):
    """A file cannot be replayed. The text is one line: the file, the line if known, the problem, the fix.

    Attributes:
        path: The file.
        line: The line, from 1; None if the problem is not in one line.
    """

    def __init__(self, path: Path, problem: str, fix: str, *, line: int | None = None) -> None:
        shown = format_path(path)
        where = f"{shown}, line {line}" if line is not None else shown
        super().__init__(f"{where}: {problem}; {fix}")
        self.path = path
        self.line = line


class NothingToReplayError(ReplayError):
    """A file is no recorded session of a known kind, or no model has answered in it."""
