"""File operations as tags behind a summary's text, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence

from compaction_hooks.files.lists import FileOperations, merge

FILE_TAG_CHARS = 3_000
"""The most the tags take, in characters: about a thousand tokens, a quarter of what a summary may hold."""

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_TO_ESCAPE = re.compile(r"&(?=(?:amp|lt|gt);)|[<>]")
_ESCAPED = re.compile(r"&(?:amp|lt|gt);")
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}
_OMITTED = re.compile(r"\(\d+ earlier files? not listed\)")
_LONGEST_OMITTED = "(9999 earlier files not listed)\n"


def file_tags(operations: FileOperations, *, max_chars: int = FILE_TAG_CHARS) -> str:
    """Return `<read-files>` and `<modified-files>` with one path on each line, oldest first; empty when there is nothing to say.

    The text has at most `max_chars` characters. Where the paths do not fit, modified files go before read ones and newer
    before older ones, and the number of those left out is stated. Paths are escaped, so that none can close its tag, leave its
    line or read as the beginning of a turn.

    >>> print(file_tags(FileOperations(modified=("src/a.py",))))
    <modified-files>
    src/a.py
    </modified-files>
    """
    modified, omitted = _tag("modified-files", operations.modified, max_chars)
    read = "" if omitted else _tag("read-files", operations.read, max_chars - len(modified) - 1)[0]
    return "\n".join(text for text in (read, modified) if text)


def parse_file_tags(text: str) -> FileOperations:
    """Return the files that tags in a text name, so that a summary is usable without its record. Tags left open are ignored."""
    read = FileOperations(read=tuple(_tagged(text, "read-files")))
    return merge(read, FileOperations(modified=tuple(_tagged(text, "modified-files"))))


def without_file_tags(text: str) -> str:
    """Return the text with its file tags taken out."""
    for name in ("read-files", "modified-files"):
        kept: list[str] = []
        at = 0
        for start, end in _spans(text, name):
            kept.append(text[at:start])
            at = end
        text = "".join(kept) + text[at:]
    return text


def _tag(name: str, paths: Sequence[str], max_chars: int) -> tuple[str, int]:
    """Return one tag with the newest paths that fit, empty when not even one does; and how many are left out."""
    room = max_chars - len(f"<{name}>\n</{name}>")
    newest = _fitting(paths, room)
    if len(newest) < len(paths):
        newest = _fitting(paths, room - len(_LONGEST_OMITTED))
    omitted = len(paths) - len(newest)
    if not newest:
        return "", omitted
    note = [f"({omitted} earlier file{'s' if omitted > 1 else ''} not listed)"] if omitted else []
    return "\n".join([f"<{name}>", *note, *reversed(newest), f"</{name}>"]), omitted


def _fitting(paths: Sequence[str], room: int) -> list[str]:
    """Return the lines of the paths that fit, the last one first; no more paths are looked at."""
    lines: list[str] = []
    for path in reversed(paths):
        line = _escape(path)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return lines


def _tagged(text: str, name: str) -> list[str]:
    """Return the paths in every tag of this name, in the order they stand."""
    paths: list[str] = []
    for start, end in _spans(text, name):
        body = text[start + len(f"<{name}>") : end - len(f"</{name}>")]
        lines = (line.strip() for line in body.splitlines())
        paths += (_unescape(line) for line in lines if line and not _OMITTED.fullmatch(line))
    return paths


def _spans(text: str, name: str) -> list[tuple[int, int]]:
    """Return (start, end) of each tag with its body."""
    spans: list[tuple[int, int]] = []
    start = text.find(f"<{name}>")
    while start >= 0:
        end = text.find(f"</{name}>", start)
        if end < 0:
            break
        end += len(f"</{name}>")
        spans.append((start, end))
        start = text.find(f"<{name}>", end)
    return spans


def _escape(path: str) -> str:
    line = " ".join(path.splitlines())
    if "<" in line or ">" in line or "&" in line:
        line = _TO_ESCAPE.sub(lambda match: _ESCAPES[match[0]], line)
    from compaction_hooks.text.escaping import without_labels  # its patterns are long to compile

    return without_labels(line)


def _unescape(line: str) -> str:
    return _ESCAPED.sub(lambda match: _UNESCAPES[match[0]], line)
