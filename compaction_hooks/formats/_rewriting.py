"""Changes of contents: other texts, fewer items, two merged into one. Unchanged values are the same objects."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats._json import fields_of, list_of, text_of
from compaction_hooks.formats._reading import content_blocks
from compaction_hooks.messages import M, Media, Message, PartAddress, Text, ToolCall, ToolResult


def replace_result_text(old: object, text: str, block_type: str) -> object:
    """Return the content of a result with another text: a text for a text, else one text block with the old cache mark.

    Args:
        block_type: The type of the new text block if the old content has none.
    """
    blocks = list_of(old)
    if blocks is None:
        return text

    fields = [found for found in map(fields_of, blocks) if found is not None]
    first = next((block for block in fields if "text" in block), {"type": block_type})
    mark = next((block["cache_control"] for block in reversed(fields) if block.get("cache_control")), None)
    return [{**first, "text": text, **({} if mark is None else {"cache_control": mark})}]


def replace_text(old: object, index: int, text: str) -> object:
    """Return a content with another text in the part at `index`: a text for a text, else the list with one other block."""
    if isinstance(old, str):
        return text
    blocks = list(content_blocks(old))
    blocks[index] = replace_block_text(blocks[index], text)
    return blocks


def replace_block_text(old: object, text: str) -> object:
    """Return a block of text or refusal with another text, or a block of text in place of media, with its cache mark."""
    fields = fields_of(old)
    if fields is None:
        return text
    if fields.get("type") == "refusal" or "text" in fields:
        return {**fields, "refusal" if fields.get("type") == "refusal" else "text": text}

    mark = {key: fields[key] for key in ("cache_control",) if key in fields}
    return {"type": _TEXT_TYPES.get(text_of(fields.get("type")), "text"), "text": text, **mark}


_TEXT_TYPES: Final = {"input_image": "input_text", "input_file": "input_text"}
"""The type of a text block in place of media of OpenAI Responses; in all other formats it is "text"."""


def check_pieces(pieces: Sequence[int], count: int) -> None:
    """Refuse indexes that are not a non-empty, ascending choice among `count` pieces.

    Raises:
        ConfigurationError: they are no such choice.
    """
    chosen = list(pieces)
    if not chosen or chosen != sorted(set(chosen)) or chosen[0] < 0 or chosen[-1] >= count:
        raise ConfigurationError(f"pieces={chosen} must be ascending indexes below {count}, at least one")


def part_at(pieces: Sequence[Message], address: PartAddress) -> Text | Media | ToolCall | ToolResult:
    """Return the text, tool call or result at an address, or media of a user.

    Raises:
        ConfigurationError: the address names none of these.
    """
    piece, index = address
    if 0 <= piece < len(pieces) and 0 <= index < len(pieces[piece].parts):
        part = pieces[piece].parts[index]
        if isinstance(part, (Text, ToolCall, ToolResult)) or (isinstance(part, Media) and pieces[piece].role == "user"):
            return part
    raise ConfigurationError(f"address {address} names no text, tool call or result: take addresses from read()")


def call_at(pieces: Sequence[Message], address: PartAddress) -> ToolCall:
    """Return the tool call at an address.

    Raises:
        ConfigurationError: the address names no tool call.
    """
    part = part_at(pieces, address)
    if isinstance(part, ToolCall):
        return part
    raise ConfigurationError(f"address {address} names no tool call: take addresses from read()")


def without_items(content: object, gone: Container[int]) -> object:
    """Return a list without the items at these indexes; None if no item is left, or if the content is no list."""
    items = list_of(content) or ()
    return [item for index, item in enumerate(items) if index not in gone] or None


def merge_rows(view: list[M], merge_pair: Callable[[M, M], M | None]) -> list[M]:
    """Return the view with adjacent messages merged if possible; the very list if none can be merged.

    Args:
        merge_pair: Returns a copy of the second message with the content of both; None unless both are the user's.
    """
    merged: list[M] = []
    for message in view:
        both = merge_pair(merged[-1], message) if merged else None
        if both is None:
            merged.append(message)
        else:
            merged[-1] = both
    return merged if len(merged) < len(view) else view


def merged_content(first: object, second: object, text_type: str = "text") -> object:
    """Return two contents as one: two texts joined by a blank line, since strict chat templates accept only text; else blocks."""
    if isinstance(first, str) and isinstance(second, str):
        return "\n\n".join(filter(None, (first, second)))
    return [block for content in (first, second) for block in _blocks(content, text_type)]


def _blocks(content: object, text_type: str) -> list[object]:
    if isinstance(content, str):
        return [{"type": text_type, "text": content}] if content else []
    return [*(list_of(content) or ())]


def last_cache_mark(content: object) -> object | None:
    """Return the `cache_control` of the last block that has one, blocks in a tool's result included; None without one."""
    for block in reversed(list_of(content) or ()):
        fields = fields_of(block) or {}
        if mark := fields.get("cache_control") or last_cache_mark(fields.get("content")):
            return mark
    return None


def marked_content(content: object, mark: object) -> list[object]:
    """Return a content as a list of blocks, the last one with this `cache_control`."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*(list_of(content) or ())]
    return [*blocks[:-1], {**(fields_of(blocks[-1]) or {}), "cache_control": mark}]
