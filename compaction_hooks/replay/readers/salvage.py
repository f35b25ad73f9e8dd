"""What is whole in a JSON document that breaks off or is damaged somewhere."""

from __future__ import annotations

import itertools
import json
import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\],]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}


class Salvaged(NamedTuple):
    """A value, whether it is all of it, and where in the text it ends or the first mistake stands."""

    value: object
    is_whole: bool
    end: int


def salvage(text: str, start: int = 0) -> Salvaged | None:
    """Return the JSON value that begins at `start`, as far as it is whole before its first mistake.

    Members and elements that are not complete are left out, and so is an object of a list that is not complete: a message
    of which half is missing is none. None when the text does not begin with an object or a list, or is nested too deeply.
    """
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as mistake:
        mended = _mended(text, start, mistake.pos)
        return None if mended is None else Salvaged(mended, False, mistake.pos)
    except (ValueError, RecursionError):  # a number of thousands of digits; nested deeper than the interpreter allows
        return None
    return Salvaged(value, True, end)


def _mended(text: str, start: int, mistake: int) -> object:
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
        elif mark == '"':
            break  # the mistake is inside a string
    level = _last_whole_level(opened)
    closers = "".join(_CLOSERS[mark] for mark in reversed(opened[: level + 1]))
    try:
        return json.loads(text[start : whole[level]] + closers)
    except (ValueError, RecursionError):
        return None


def _last_whole_level(opened: list[str]) -> int:
    """The list whose last object is broken, else the innermost of what is open."""
    pairs = enumerate(itertools.pairwise(opened))
    return next((level for level, pair in pairs if pair == ("[", "{")), len(opened) - 1)
