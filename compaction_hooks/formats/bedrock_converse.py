"""Bedrock Converse messages: blocks named by their key, tool results inside user messages, signed reasoning, cache points.

Shapes: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html, as in boto3 (1.44).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compaction_hooks.formats._block_format import BlockFormat
from compaction_hooks.formats._json import Fields, as_json_text, block_content, fields_of, list_of, text_of, to_json
from compaction_hooks.formats._owners import BEDROCK_CONVERSE
from compaction_hooks.formats._reading import media_from_data, read_own_block
from compaction_hooks.formats._signatures import sealed_chars
from compaction_hooks.messages import Media, Opaque, Part, Role, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.text.json_text import json_object

_MEDIA: Final[Mapping[str, str]] = {
    "image": "image",
    "document": "application",
    "video": "video",
    "audio": "audio",
}
"""Keys of media, and the first half of their MIME type."""


class BedrockConverseFormat(BlockFormat):
    """Messages of Bedrock's Converse API as dicts: what boto3 takes and returns.

    A user message that mixes tool results with text or images has one piece for each group of adjacent results ("tool") and one
    for each group of other blocks ("user"), in their order. Each block is one part, but for a cache point, which is none.
    """

    name = "bedrock_converse"
    provider = "bedrock"
    _subject = "a Converse message"
    _owner = BEDROCK_CONVERSE
    _merged_roles = ("user", "assistant")  # the assistant is twice in a row where `repair` dropped a result between

    def request(self, text: str, /) -> Fields:
        """Return a new user message with this text."""
        return {"role": "user", "content": [{"text": text}]}

    def cache_mark(self, message: Fields, /) -> object | None:
        """Return the last cache point of a message; None without one."""
        blocks = reversed(list_of(message.get("content")) or ())
        return next((block for block in blocks if "cachePoint" in (fields_of(block) or {})), None)

    def with_cache_mark(self, summary: Fields, mark: object, /) -> Fields:
        """Return a copy of a summary with this cache point at its end."""
        return {**summary, "content": [*(list_of(summary.get("content")) or ()), mark]}

    def _read_block(self, block: object, role: Role) -> Part | None:
        fields = fields_of(block)
        if fields is None or "type" in fields:
            return read_own_block(block, {})
        if "cachePoint" in fields:
            return None

        if role == "assistant" and (call := fields_of(fields.get("toolUse"))) is not None:
            sealed = sealed_chars(call.get("reasoningSignature"))  # a field of Strands, with Google's signature
            arguments = as_json_text(call.get("input"))
            return ToolCall(text_of(call.get("toolUseId")), text_of(call.get("name")), arguments, sealed)
        if role == "user" and (result := fields_of(fields.get("toolResult"))) is not None:
            return _read_result(result)
        if role == "assistant" and (reasoning := fields_of(fields.get("reasoningContent"))) is not None:
            return _read_reasoning(reasoning)

        return _read_words(fields) or _opaque(fields)

    def _failure(self, call: ToolCall, text: str) -> Fields:
        return {"toolResult": {"toolUseId": call.id, "status": "error", "content": [{"text": text}]}}

    def _rename_block(self, block: Fields, id_: str) -> Fields:
        key = "toolResult" if "toolResult" in block else "toolUse"
        return {**block, key: {**(fields_of(block[key]) or {}), "toolUseId": id_}}

    def _rewrite_block(self, block: Fields, part: Text | Media | ToolCall | ToolResult, text: str) -> object:
        match part:
            case ToolResult():
                result = fields_of(block["toolResult"]) or {}
                return {**block, "toolResult": {**result, "content": [{"text": text}]}}
            case ToolCall():
                return {**block, "toolUse": {**(fields_of(block["toolUse"]) or {}), "input": json_object(text)}}
            case Text() | Media():
                return {**block, "text": text} if "text" in block else {"text": text}


def _read_result(result: Fields) -> ToolResult:
    blocks = [fields_of(block) or {} for block in list_of(result.get("content")) or ()]
    parts = [_read_words(block) or _opaque(block) for block in blocks if "cachePoint" not in block]
    text = "".join([part.text for part in parts if not isinstance(part, Media)])

    return ToolResult(
        text_of(result.get("toolUseId")),
        text,
        is_error=result.get("status") == "error",
        media=tuple([part for part in parts if isinstance(part, Media)]),
    )


def _read_words(block: Fields) -> Text | Media | None:
    """Read a text, JSON in a tool's result, media, or a document that is sent as text."""
    if isinstance(text := block.get("text"), str):
        return Text(text)
    if "json" in block:
        return Text(to_json(block["json"]))
    for key, kind in _MEDIA.items():
        if (media := fields_of(block.get(key))) is not None:
            return _read_media(media, kind)
    return None


def _read_media(media: Fields, kind: str) -> Text | Media | None:
    source = fields_of(media.get("source")) or {}
    if isinstance(text := source.get("text"), str):
        return Text(text)

    form, name = text_of(media.get("format")), text_of(media.get("name"))
    place = source.get("s3Location") or source.get("location")  # the second is Strands' name for it
    address = text_of((fields_of(place) or {}).get("uri"))

    if address:
        return Media(kind, address, is_reference=True, name=name)
    return media_from_data(source.get("bytes"), f"{kind}/{form}" if form else kind, name=name)


def _read_reasoning(reasoning: Fields) -> Thinking:
    text = fields_of(reasoning.get("reasoningText")) or {}
    sealed = sealed_chars(text.get("signature")) + sealed_chars(reasoning.get("redactedContent"))
    return Thinking(text_of(text.get("text")), sealed)


def _opaque(block: Fields) -> Opaque:
    return Opaque(next(iter(block), "unknown"), to_json(block), content=block_content(block))
