"""JSON values of which nothing is certain, read without surprises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from compaction_hooks.replay.recorded import Fields


def fields(value: object) -> Fields:
    """The object, or an empty one when `value` is anything else."""
    return cast(Fields, value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[object]:
    """The list, or an empty one when `value` is anything else."""
    return cast(list[object], value) if isinstance(value, list) else []


def text(value: object) -> str:
    """The text, or an empty one when `value` is anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The number, or 0 when `value` is no whole number above zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def blocks(content: object) -> list[Fields]:
    """The content blocks of a message: text becomes a text block, what is no object is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [fields(block) for block in items(content) if isinstance(block, Mapping)]
