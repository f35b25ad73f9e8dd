"""The files that a conversation read and modified, as two lists, and the lines of a summary that name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from compaction_hooks.text.escaping import escape_labels
from compaction_hooks.text.shortening import remove_blocks


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


FILE_TAG_CHARS = 3_000
"""The most the tags take, in characters: about a thousand tokens, a quarter of the largest summary."""

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_TO_ESCAPE = re.compile(r"&(?=(?:amp|lt|gt);)|[<>]")
_LONGEST_OMITTED = "(9999 earlier files not listed)\n"


def file_tags(operations: FileOperations, *, max_chars: int = FILE_TAG_CHARS) -> str:
    """Return `<read-files>` and `<modified-files>` with one path on each line, oldest first; empty when there is nothing to say.

    The text has at most `max_chars` characters. If the paths do not fit, modified files go before read ones and newer
    before older ones, and the number of those left out is stated. Paths are escaped, so that none can close its tag, leave its
    line or read as the beginning of a turn.

    >>> print(file_tags(FileOperations(modified=("src/a.py",))))
    <modified-files>
    src/a.py
    </modified-files>
    """
    modified, omitted = _render_tag("modified-files", operations.modified, max_chars)
    read = "" if omitted else _render_tag("read-files", operations.read, max_chars - len(modified) - 1)[0]
    return "\n".join(text for text in (read, modified) if text)


def remove_file_tags(text: str) -> str:
    """Return the text without its file tags."""
    return remove_blocks(remove_blocks(text, "read-files"), "modified-files")


def _render_tag(name: str, paths: Sequence[str], max_chars: int) -> tuple[str, int]:
    """Return one tag with the newest paths that fit, empty when none does; and the number of paths left out."""
    room = max_chars - len(f"<{name}>\n</{name}>")

    newest = _take_fitting(paths, room)
    if len(newest) < len(paths):
        newest = _take_fitting(paths, room - len(_LONGEST_OMITTED))

    omitted = len(paths) - len(newest)
    if not newest:
        return "", omitted
    note = [f"({omitted} earlier file{'s' if omitted > 1 else ''} not listed)"] if omitted else []
    return "\n".join([f"<{name}>", *note, *reversed(newest), f"</{name}>"]), omitted


def _take_fitting(paths: Sequence[str], room: int) -> list[str]:
    """Return the lines of the paths that fit, the last one first. Stop at the first that does not fit."""
    lines: list[str] = []
    for path in reversed(paths):
        line = _escape_path(path)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return lines


def _escape_path(path: str) -> str:
    line = " ".join(path.splitlines())

    return escape_labels(_TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], line))
