"""The files that a conversation read and modified, as two lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FileOperations(NamedTuple):
    """Files in the order they were last touched, oldest first; no path is in both lists.

    Attributes:
        read: Read and never modified.
        modified: Written, edited or created, whether read before or not.
    """

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


def merge(previous: FileOperations, newer: FileOperations) -> FileOperations:
    """Return both lists as one: a path touched again moves to the end, a read file once modified counts as modified.

    >>> merge(FileOperations(read=("a", "b")), FileOperations(read=("c",), modified=("a",)))
    FileOperations(read=('b', 'c'), modified=('a',))
    """
    known = set(previous.modified)
    modified = _newest_last((*previous.modified, *(path for path in newer.read if path in known), *newer.modified))
    changed = set(modified)
    read = _newest_last([path for path in (*previous.read, *newer.read) if path not in changed])
    return FileOperations(read=read, modified=modified)


def _newest_last(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reversed(paths)))[::-1]
