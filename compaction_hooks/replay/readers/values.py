"""Readers of JSON values of unknown type, which never raise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeGuard

from compaction_hooks import Usage
from compaction_hooks.replay.recorded import Fields

_MOST: Final = 10**15
"""A larger count is damage: no time in milliseconds and no number of tokens is so large, and sums of it may not fit a float."""


def is_object(value: object) -> TypeGuard[Fields]:
    """Whether `value` is a JSON object."""
    return isinstance(value, Mapping)


def fields(value: object) -> Fields:
    """Return the object, or an empty one if `value` is anything else."""
    return value if is_object(value) else {}


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether `value` is a JSON list."""
    return isinstance(value, list)


def one_or_more(value: object) -> list[object]:
    """Return the list, or a list of the single value."""
    return value if is_list(value) else [value]


def items(value: object) -> list[object]:
    """Return the list, or an empty one if `value` is anything else."""
    return value if is_list(value) else []


def text(value: object) -> str:
    """Return the text, or an empty one if `value` is anything else."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """Return the number, or 0 if `value` is not a whole number above zero, or too large for a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else 0


def is_content(value: object) -> bool:
    """Whether `value` is the content of a message: text, or a list of content blocks."""
    return isinstance(value, str) or (is_list(value) and all(map(is_object, value)))


def is_whole(listed: object) -> bool:
    """Whether each element of a list is a text or an object that says something; true of values other than lists."""
    return all(isinstance(each, str) or (is_object(each) and bool(each)) for each in items(listed))


def blocks(content: object) -> list[Fields]:
    """Return the content blocks of a message; text becomes a text block, values other than objects are left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in items(content) if is_object(block)]


def json_text(value: object) -> str:
    """Return text unchanged, "" for None, compact JSON for anything else."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "[nested too deeply to be shown]"


def arguments(value: object) -> Fields:
    """Return the arguments of a tool call, given as an object or JSON text; other values are put under "arguments"."""
    try:
        given: object = json.loads(value) if isinstance(value, str) and value else value
    except (ValueError, RecursionError):
        given = value
    if is_object(given):
        return given
    return {} if given is None or given == "" else {"arguments": given}


def call(call_id: object, name: object, given: object) -> Fields:
    """Return a `tool_use` block. The builder adds an id if there is none."""
    return {"type": "tool_use", "id": text(call_id), "name": text(name), "input": arguments(given)}


def result(call_id: object, content: object, *, is_error: bool = False) -> Fields:
    """Return a `tool_result` block; content that is neither text nor blocks becomes JSON text."""
    shown = content if is_content(content) else json_text(content)
    block = {"type": "tool_result", "tool_use_id": text(call_id), "content": shown}
    return {**block, "is_error": True} if is_error else block


def usage_of(whole: int, output: int, *, read: int, written: int = 0) -> Usage | None:
    """Return the usage of a call, None if no input was counted.

    Args:
        whole: The whole input, its cached part included.
        read: The part of the input that was read from the cache.
        written: The part of the input that was written to the cache.
    """
    if not whole:
        return None
    return Usage(input_tokens=whole, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)


def thinking(thoughts: str, signature: str = "") -> list[Fields]:
    """Return the block for reasoning with its signature or encrypted form; none if both are empty."""
    if not thoughts:
        return [{"type": "redacted_thinking", "data": signature}] if signature else []
    return [{"type": "thinking", "thinking": thoughts, "signature": signature}]
