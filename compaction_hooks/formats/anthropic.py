"""Anthropic messages: content blocks, tool results inside user messages, signed thinking.

Shapes: https://docs.claude.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Final

from compaction_hooks.formats._dict_format import DictFormat
from compaction_hooks.formats._fields import Fields, fields_of, message_fields, text_of
from compaction_hooks.formats._json import as_json_text
from compaction_hooks.formats._media import media_from_base64, media_from_url
from compaction_hooks.formats._reading import (
    ROLES,
    BlockReader,
    build_message,
    content_blocks,
    opaque,
    read_content,
    read_result,
    text_block,
    thinking_block,
)
from compaction_hooks.formats._rewriting import (
    call_at,
    check_pieces,
    part_at,
    replace_block_text,
    replace_result_text,
    without_items,
)
from compaction_hooks.messages import Media, Message, PartAddress, Provider, Role, Text, ToolCall, ToolResult
from compaction_hooks.text.json_text import json_object


class AnthropicFormat(DictFormat):
    """Anthropic messages as dicts, TypedDicts or SDK objects.

    A user message that mixes tool results with text or images has one piece for each group of adjacent results ("tool") and one
    for each group of other blocks ("user"), in their order. Each block is one part. Blocks of server-side tools, of Anthropic's
    own compaction and of any unknown type are `Opaque`.
    """

    name = "anthropic"
    provider: Provider | None = "anthropic"
    own_blocks = frozenset(
        {
            "tool_use",
            "tool_result",
            "server_tool_use",
            "mcp_tool_use",
            "mcp_tool_result",
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
        }
    )

    def read(self, message: Fields, /) -> tuple[Message, ...]:
        """Read one message; at least one piece.

        Raises:
            FormatError: "role" is missing, "content" is neither text, list nor null, or a part is of another format.
        """
        fields = message_fields(message)
        role = fields.get("role")
        if not isinstance(role, str):
            raise self._unreadable(fields, 'an Anthropic message needs "role": user or assistant')
        self._refuse_chat_message(fields)

        neutral = ROLES.get(role, "other")
        parts = read_content(fields.get("content"), _READERS.get(neutral, _TEXT_BLOCKS))
        if neutral != "user" or not any(isinstance(part, ToolResult) for part in parts):
            return (build_message(neutral, parts, fields),)

        groups = groupby(parts, lambda part: isinstance(part, ToolResult))
        pieces = [(is_result, tuple(group)) for is_result, group in groups]
        return tuple([build_message("tool" if is_result else "user", group, fields) for is_result, group in pieces])

    def _owns(self, block: Fields) -> bool:
        """Return whether a block is Anthropic's own: also images and documents, but only with Anthropic's `source`."""
        # LiteLLM accepts blocks of these types among chat messages, in another shape.
        is_source = block.get("type") in ("image", "document") and fields_of(block.get("source")) is not None
        return is_source or super()._owns(block)

    def answer(self, message: Fields, call: PartAddress, text: str, /) -> Fields:
        """Return a user message with a failed result of this tool call.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        asked = call_at(self.read(message), call)
        result = {"type": "tool_result", "tool_use_id": asked.id, "is_error": True, "content": text}
        return {"role": "user", "content": [result]}

    def take(self, message: Fields, pieces: Sequence[int], /) -> Fields:
        """Return a message with the blocks of these pieces; the message itself if these are all pieces."""
        read = self.read(message)
        check_pieces(pieces, len(read))
        if len(pieces) == len(read):
            return message

        fields = message_fields(message)
        blocks = iter(content_blocks(fields.get("content")))
        groups = [[next(blocks) for _ in piece.parts] for piece in read]
        return {**fields, "content": [block for index in pieces for block in groups[index]]}

    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        part, content = part_at(pieces, address), fields.get("content")
        if isinstance(content, str):
            return {"content": text}
        blocks, index = list(content_blocks(content)), _block_index(pieces, address)
        blocks[index] = _rewrite_block(blocks[index], part, text)
        return {"content": blocks}

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy without these blocks; the other blocks are the same objects."""
        pieces = self.read(message)
        fields = message_fields(message)
        gone = {_block_index(pieces, address) for address in parts}
        return {**fields, "content": without_items(fields.get("content"), gone)}

    def rename(self, message: Fields, ids: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy with these ids in the addressed tool calls and results; the other blocks are the same objects."""
        pieces = self.read(message)
        fields = message_fields(message)
        blocks = list(content_blocks(fields.get("content")))
        for address, id_ in ids.items():
            index = _block_index(pieces, address)
            block = fields_of(blocks[index]) or {}
            blocks[index] = {**block, "tool_use_id" if block.get("type") == "tool_result" else "id": id_}
        return {**fields, "content": blocks}


def _block_index(pieces: Sequence[Message], address: PartAddress) -> int:
    return sum(len(piece.parts) for piece in pieces[: address[0]]) + address[1]


def _rewrite_block(old: object, part: Text | Media | ToolCall | ToolResult, text: str) -> object:
    block = fields_of(old) or {}
    match part:
        case ToolResult():
            return {**block, "content": replace_result_text(block.get("content"), text, "text")}
        case ToolCall():
            return {**block, "input": json_object(text)}
        case Text() if block.get("type") == "document":
            return {**block, "source": {**(fields_of(block.get("source")) or {}), "data": text}}
        case Text() | Media():
            return replace_block_text(old, text)


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
    **dict.fromkeys(AnthropicFormat.own_blocks, opaque),
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
