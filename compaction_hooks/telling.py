"""The answers of the host's functions that are asked for a compaction: one value, from the controller to the strategies.

A further such function is a field of `Told`, with its rule as a method, and a field of `Tellers` in `runtime/tellers.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from compaction_hooks.files import FileOperations, merge


class Told(NamedTuple):
    """The answers of the host for one compaction.

    Attributes:
        files: Files that the host itself keeps track of.
    """

    files: FileOperations = FileOperations()

    def add_files(self, files: FileOperations) -> Told:
        """Return the answers with more files: those of the controller and of the conversation count together."""
        return self._replace(files=merge(self.files, files))
