"""Reads the intact part of a JSON document that breaks off or is damaged."""

from __future__ import annotations

import itertools
import json
import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+("?)|[{}\[\],]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}


class Salvaged(NamedTuple):
    """A value, whether it is complete, and the position of its end or of the first mistake."""

    value: object
    is_whole: bool
    end: int


def salvage(text: str, start: int = 0) -> Salvaged | None:
    """Return the JSON value that begins at `start`, as far as it is intact before its first mistake.

    Incomplete members and elements are left out, as is an incomplete object in a list: half a message is not a message. None if
    the text does not begin with an object or a list, or is nested too deeply.
    """
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as mistake:
        repaired = _repair(text, start, mistake.pos)
        return None if repaired is None else Salvaged(repaired, False, mistake.pos)
    except (ValueError, RecursionError):  # a number of thousands of digits; nested deeper than the interpreter allows
        return None
    return Salvaged(value, True, end)


def _repair(text: str, start: int, mistake: int) -> object:
    if text[start : start + 1] not in _CLOSERS:
        return None

    opened: list[str] = []
    whole: list[int] = []
    for token in _TOKEN.finditer(text, start, mistake):
        mark = token[0]
        if mark in _CLOSERS:
            opened.append(mark)
            whole.append(token.end())
        elif mark == ",":
            whole[-1] = token.start()
        elif mark in "}]":
            opened.pop()
            whole.pop()
            whole[-1] = token.end()
        elif token[1] == "":
            break  # the mistake is inside a string

    level = _last_whole_level(opened)
    closers = "".join(_CLOSERS[mark] for mark in reversed(opened[: level + 1]))
    try:
        return json.loads(text[start : whole[level]] + closers)
    except (ValueError, RecursionError):
        return None


def _last_whole_level(opened: list[str]) -> int:
    """Return the level of the outermost list with a broken object, else the innermost open level."""
    pairs = enumerate(itertools.pairwise(opened))
    return next((level for level, pair in pairs if pair == ("[", "{")), len(opened) - 1)
