"""JSON whose depth is bounded by a constant, so that reading and writing it do not depend on the stack a caller has left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, cast

MOST_NESTED: Final = 64
"""Levels of objects and lists; deeper JSON is plain text everywhere. Tools' arguments have fewer than ten. The standard library
takes a frame of the interpreter's 1,000 for each level: this leaves more than 900 to the host."""


def parse_json(text: str, most_nested: int = MOST_NESTED) -> object:
    """Return the value of a JSON text, as `json.loads` does.

    Raises:
        ValueError: it is not JSON, or nested in more than `most_nested` levels.
    """
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ValueError("nested deeper than the interpreter allows") from None
    if may_be_nested(text, most_nested) and is_nested(value, most_nested):
        raise ValueError(f"nested in more than {most_nested} levels")
    return value


def json_object(text: str) -> dict[str, object]:
    """Return the JSON object in `text`; the text under "arguments" if it is anything else."""
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    return cast("dict[str, object]", value) if isinstance(value, dict) else {"arguments": text}


def may_be_nested(text: str, levels: int = MOST_NESTED) -> bool:
    """Return whether a JSON text has more brackets than `levels` levels need: few have, and counting takes little time."""
    return text.count("{") + text.count("[") > levels


def is_nested(value: object, levels: int = MOST_NESTED) -> bool:
    """Return whether objects and lists are nested in more than `levels` levels. The value must not hold itself."""
    layer: list[object] = [value]
    for _ in range(levels):
        layer = [item for node in layer for item in _items(node)]
    return any(isinstance(node, (Mapping, list, tuple)) for node in layer)


def _items(node: object) -> Iterable[object]:
    if isinstance(node, Mapping):
        return cast("Mapping[object, object]", node).values()
    return cast("list[object]", node) if isinstance(node, (list, tuple)) else ()
