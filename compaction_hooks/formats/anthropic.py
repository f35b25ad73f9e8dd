"""Anthropic messages: content blocks, tool results inside user messages, signed thinking.

Shapes: https://docs.claude.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from compaction_hooks.formats._block_format import BlockFormat
from compaction_hooks.formats._dict_format import replace_block_text, replace_result_text
from compaction_hooks.formats._json import Fields, as_json_text, fields_of, text_of
from compaction_hooks.formats._owners import ANTHROPIC
from compaction_hooks.formats._reading import (
    BlockReader,
    media_from_base64,
    media_from_url,
    opaque,
    read_own_block,
    read_result,
    text_block,
    thinking_block,
)
from compaction_hooks.messages import Media, Part, Role, Text, ToolCall, ToolResult
from compaction_hooks.text.json_text import json_object


class AnthropicFormat(BlockFormat):
    """Anthropic messages as dicts, TypedDicts or SDK objects.

    A user message that mixes tool results with text or images has one piece for each group of adjacent results ("tool") and one
    for each group of other blocks ("user"), in their order. Each block is one part. Blocks of server-side tools, of Anthropic's
    own compaction and of any unknown type are `Opaque`.
    """

    name = "anthropic"
    _subject = "an Anthropic message"
    _owner = ANTHROPIC

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[Fields]:
        """Return an assistant message of these blocks."""
        return [{"role": "assistant", "content": [*items]}]

    def _read_block(self, block: object, role: Role) -> Part:
        return read_own_block(block, _READERS.get(role, _TEXT_BLOCKS))

    def _failure(self, call: ToolCall, text: str) -> Fields:
        return {"type": "tool_result", "tool_use_id": call.id, "is_error": True, "content": text}

    def _rename_block(self, block: Fields, id_: str) -> Fields:
        return {**block, "tool_use_id" if block.get("type") == "tool_result" else "id": id_}

    def _rewrite_block(self, block: Fields, part: Text | Media | ToolCall | ToolResult, text: str) -> object:
        match part:
            case ToolResult():
                return {**block, "content": replace_result_text(block.get("content"), text, "text")}
            case ToolCall():
                return {**block, "input": json_object(text)}
            case Text() if block.get("type") == "document":
                return {**block, "source": {**(fields_of(block.get("source")) or {}), "data": text}}
            case Text() | Media():
                return replace_block_text(block, text)


def _image(fields: Fields) -> Media | None:
    return _media(fields_of(fields.get("source")) or {}, "image")


def _document(fields: Fields) -> Media | Text | None:
    """Read a document; as text if it is sent as text, so that its tokens are estimated from its length."""
    source = fields_of(fields.get("source")) or {}
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return Text(text_of(source.get("data")))
    return _media(source, "application", text_of(fields.get("title")))


def _media(source: Fields, kind: str, name: str = "") -> Media | None:
    data, url, file_id = (text_of(source.get(key)) for key in ("data", "url", "file_id"))
    if data:
        return media_from_base64(data, text_of(source.get("media_type")) or kind, name=name)
    if url:
        return media_from_url(url, kind, name=name)
    return Media(kind, file_id, is_reference=True, name=name) if file_id else None


def _call(fields: Fields) -> ToolCall:
    return ToolCall(text_of(fields.get("id")), text_of(fields.get("name")), as_json_text(fields.get("input")))


def _result(fields: Fields) -> ToolResult:
    return read_result(
        fields.get("content"),
        _RESULT_BLOCKS,
        fields.get("tool_use_id"),
        name=fields.get("name"),
        is_error=fields.get("is_error") is True,
    )


_TEXT_BLOCKS: Final[Mapping[str, BlockReader]] = {
    "text": text_block,
    **dict.fromkeys(ANTHROPIC.blocks, opaque),
}
_RESULT_BLOCKS: Final[Mapping[str, BlockReader]] = {**_TEXT_BLOCKS, "image": _image, "document": _document}
_READERS: Final[Mapping[Role, Mapping[str, BlockReader]]] = {
    "user": {**_RESULT_BLOCKS, "tool_result": _result},
    "assistant": {
        **_TEXT_BLOCKS,
        "thinking": thinking_block,
        "redacted_thinking": thinking_block,
        "tool_use": _call,
    },
}
