"""Copies of JSON values, to notice by one comparison that a host still writes to them."""

from __future__ import annotations

from typing import Any, Final

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
MOST_NESTED: Final = 16


class NotPlainError(Exception):
    """A value that is no JSON, or nested too deeply: nothing tells when it changes, or how to copy it."""


def snapshot(value: Any, depth: int = MOST_NESTED) -> object:
    """Return a copy of a JSON value in which no list and no dict is shared; its texts are the same objects.

    Raises:
        NotPlainError: it holds anything but dicts, lists, texts, numbers, booleans and None, or is nested more than `depth` deep.
    """
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict and depth:
        copied = value.copy()
        for key, item in value.items():
            if type(item) is not str:
                copied[key] = snapshot(item, depth - 1)
        return copied
    if kind is list and depth:
        return [snapshot(item, depth - 1) for item in value]
    raise NotPlainError(kind.__name__)
