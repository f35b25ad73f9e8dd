"""JSON values of which nothing is certain, read without surprises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard, cast

from compaction_hooks.replay.recorded import Fields


def is_object(value: object) -> TypeGuard[Fields]:
    """Whether `value` is a JSON object."""
    return isinstance(value, Mapping)


def fields(value: object) -> Fields:
    """The object, or an empty one when `value` is anything else."""
    return value if is_object(value) else {}


def items(value: object) -> list[object]:
    """The list, or an empty one when `value` is anything else."""
    return cast(list[object], value) if isinstance(value, list) else []


def text(value: object) -> str:
    """The text, or an empty one when `value` is anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The number, or 0 when `value` is no whole number above zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def is_content(value: object) -> bool:
    """Whether `value` is what a message may hold: text, or a list of content blocks."""
    return isinstance(value, str) or (isinstance(value, list) and all(map(is_object, items(cast(object, value)))))


def blocks(content: object) -> list[Fields]:
    """The content blocks of a message: text becomes a text block, what is no object is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in items(content) if is_object(block)]
