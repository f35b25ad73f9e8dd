"""Reads a session file as JSON objects with line numbers, and tolerates the mistakes of real files."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers.notes import at
from compaction_hooks.replay.readers.salvage import salvage
from compaction_hooks.replay.readers.values import is_list, is_object
from compaction_hooks.replay.recorded import Fields, Unread

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
"""With 16 added, zlib expects a gzip header (https://docs.python.org/3/library/zlib.html#zlib.decompress)."""
_CUT: Final = Unread("the gzip file is cut off: everything before the cut is read")
_NOT_UTF_8: Final = Unread("bytes that are not UTF-8")
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""Codex compresses archived rollouts."""
_HEAD_BYTES: Final = 8192
"""Enough to find a NUL byte in a binary file."""

_DECODER: Final = json.JSONDecoder()
_GIVE_A_SESSION: Final = "give a session file: JSON or JSON Lines"


@dataclass(frozen=True, slots=True)
class Line:
    """A JSON object and the number of its first line, from 1."""

    number: int
    value: Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """The objects of one file.

    Attributes:
        lines: A JSON list of messages counts as one object with "messages".
        skipped: Notes on unread parts, and on lines with several objects.
        broken: The first line of JSON Lines that is not whole JSON, and its problem; None if all lines are whole.
    """

    path: Path
    lines: tuple[Line, ...]
    skipped: tuple[str, ...] = ()
    broken: tuple[int, str] | None = None


def load(path: Path) -> SessionFile:
    """Read a JSON or JSON Lines file, plain or gzipped.

    Raises:
        ReplayError: there is no such file, it is a folder, empty, binary, or holds no JSON object.
    """
    raw, is_cut = _read_bytes(path)
    content, wrong = _decode(path, raw)
    file = _parse(path, content)
    cut = (_CUT,) if is_cut else ()
    return replace(file, skipped=(*cut, *wrong, *file.skipped))


def _parse(path: Path, content: str) -> SessionFile:
    if not content.strip():
        raise ReplayError(path, "the file is empty", _GIVE_A_SESSION)
    try:
        whole: object = json.loads(content)
    except (ValueError, RecursionError):
        return _salvage_document(path, content) or _parse_lines(path, content)
    line = _as_line(1, whole)
    if line is None:
        raise ReplayError(path, f"{_describe(whole)} instead of a session", _GIVE_A_SESSION, line=1)
    return SessionFile(path=path, lines=(line,))


def _as_line(number: int, value: object) -> Line | None:
    if is_list(value):
        return Line(number, {"messages": value})
    return Line(number, value) if is_object(value) else None


def _salvage_document(path: Path, content: str) -> SessionFile | None:
    """Read the intact part of a JSON document over several lines, or of a single line that breaks off; None for JSON Lines."""
    texts = [line.strip() for line in content.split("\n")]
    whole = [not rest and any(map(is_object, values)) for values, rest in map(_split_values, filter(None, texts))]
    if 2 * sum(whole) >= len(whole):
        return None

    lines: list[Line] = []
    skipped: list[str] = []
    place = _skip_space(content, 0)
    while place < len(content):
        number = 1 + content.count("\n", 0, place)
        found = salvage(content, place)
        line = None if found is None else _as_line(number, found.value)
        if found is None or line is None:
            skipped.append(Unread(f"line {number}: not JSON: {content[place : place + 40]!r}"))
            break

        lines.append(line)
        place = _skip_space(content, found.end)
        if not found.is_whole:
            broken = 1 + content.count("\n", 0, found.end)
            rest = content[found.end :].strip()[:40]
            problem = f"not JSON from {rest!r} on: left out" if rest else "cut off"
            skipped.append(Unread(f"line {broken}: {problem}"))
            break

    if not any(line.value and line.value != {"messages": []} for line in lines):
        return None
    return SessionFile(path=path, lines=tuple(lines), skipped=tuple(skipped))


def _skip_space(content: str, place: int) -> int:
    while place < len(content) and content[place].isspace():
        place += 1
    return place


def _read_bytes(path: Path) -> tuple[bytes, bool]:
    """Return the decompressed bytes of the file, and whether it is a gzip file that breaks off."""
    try:
        raw = path.read_bytes()
        return _decompress(raw) if raw.startswith(_GZIP_MAGIC) else (raw, False)
    except FileNotFoundError:
        raise ReplayError(path, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise ReplayError(path, "is a folder", f"name the files in it, such as {path}/*.jsonl") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as broken:
        raise ReplayError(path, f"is a damaged gzip file ({broken})", "copy it again") from None
    except OSError as problem:
        raise access_error(path, problem) from None


def access_error(path: Path, problem: OSError) -> ReplayError:
    """Return the error of a path that the system refuses to open."""
    return ReplayError(path, f"cannot be read ({problem.strerror})", "check the path and its permissions")


def _decompress(raw: bytes) -> tuple[bytes, bool]:
    try:
        return gzip.decompress(raw), False
    except EOFError:
        found = bytearray()
        while raw.startswith(_GZIP_MAGIC):  # a gzip file may have several members
            member = zlib.decompressobj(_GZIP_WINDOW)
            found += member.decompress(raw)
            raw = member.unused_data.lstrip(b"\0")
        if not found.strip():
            raise
        return bytes(found), True


def _decode(path: Path, raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of the file, and a note if some of its bytes are none."""
    if raw.startswith(_ZSTD_MAGIC):
        raise ReplayError(path, "is compressed with zstd", f"decompress it first: zstd -d {path}")
    if b"\0" in raw[:_HEAD_BYTES]:
        raise ReplayError(path, "is a binary file or not UTF-8", _GIVE_A_SESSION)
    try:
        return raw.decode("utf-8-sig"), ()
    except UnicodeDecodeError as wrong:
        number = 1 + wrong.object.count(b"\n", 0, wrong.start)
    note = at(f"line {number}", _NOT_UTF_8)
    return raw.decode("utf-8-sig", errors="replace"), (note,)


def _parse_lines(path: Path, content: str) -> SessionFile:
    lines: list[Line] = []
    problems: list[tuple[int, str]] = []
    broken: list[tuple[int, str]] = []

    # Not splitlines: JSON text may hold line separators that are no line ends here.
    texts = [line.strip() for line in content.split("\n")]
    last = max((number for number, line in enumerate(texts, 1) if line), default=0)

    for number, line in enumerate(texts, 1):
        values, rest = _split_values(line)
        lines.extend(Line(number, value) for value in values if is_object(value))
        problems.extend(
            (number, Unread(f"{_describe(value)} instead of an object")) for value in values if not is_object(value)
        )
        if len(values) > 1:
            problems.append((number, f"{len(values)} objects on one line, all read"))
        if rest:
            broken.append((number, Unread(f"{'cut off' if number == last and lines else 'not JSON'}: {rest[:40]!r}")))
            problems.append(broken[-1])

    if not lines:
        number, problem = problems[0]
        # Not quoted: a file given by mistake may hold secrets.
        raise ReplayError(path, problem.partition(":")[0], _GIVE_A_SESSION, line=number)

    notes = tuple(at(f"line {number}", problem) for number, problem in problems)
    return SessionFile(path=path, lines=tuple(lines), skipped=notes, broken=broken[0] if broken else None)


def _split_values(line: str) -> tuple[list[object], str]:
    """Return the consecutive JSON values of a line, and the remaining text that is not JSON."""
    values: list[object] = []
    while line:
        try:
            value, end = _DECODER.raw_decode(line)
        except (ValueError, RecursionError):
            break
        values.append(value)
        line = line[end:].lstrip()
    return values, line


def _describe(value: object) -> str:
    names = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")
