"""Content blocks of LangChain messages: its own standard blocks, and those of providers, which it passes on unchanged.

Standard blocks: langchain_core/messages/content.py (1.7). Blocks of OpenAI and Anthropic are read by their own formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

from compaction_hooks.formats import (
    AnthropicFormat,
    OpenAIChatFormat,
    as_json_text,
    json_object,
    media_from_base64,
    media_from_url,
)
from compaction_hooks.messages import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult

Block: TypeAlias = Mapping[str, object]

_OPENAI: Final = OpenAIChatFormat()
_ANTHROPIC: Final = AnthropicFormat()


def blocks_of(content: object) -> Sequence[object]:
    """Return the blocks of a content; a text is one block, an empty text none."""
    if isinstance(content, str):
        return [content] if content else []
    return cast("list[object]", content)  # BaseMessage.content is str | list


def read_block(block: object) -> Part:
    """Read one block; as `Opaque` if its type is unknown."""
    if isinstance(block, str):
        return Text(block)

    fields = cast(Block, block)  # pydantic has checked: str | dict
    kind = fields.get("type")
    if kind == "text" and isinstance(fields.get("text"), str):
        return Text(_string(fields, "text"))
    if call := _call(fields):
        return call

    if kind == "server_tool_result":
        return _server_result(fields)
    if is_of_anthropic(fields):
        role = "user" if kind in _OF_A_USER else "assistant"
        return _ANTHROPIC.read({"role": role, "content": [fields]})[0].parts[0]

    reader = _READERS.get(kind) if isinstance(kind, str) else None
    part = reader(fields) if reader else None
    return part or _OPENAI.read({"role": "user", "content": [fields]})[0].parts[0]


def rewrite_block(block: object, text: str) -> object:
    """Return a block, or a tool call in any other form, with another text or arguments; its other fields are shared.

    Media become a text block with the same cache mark.
    """
    if isinstance(block, str):
        return text

    fields = cast(Block, block)
    if isinstance(function := fields.get("function"), Mapping):
        return {**fields, "function": {**cast(Block, function), "arguments": text}}

    if isinstance(read_block(fields), Media):
        mark = {key: fields[key] for key in ("cache_control",) if key in fields}
        return {"type": "text", "text": text, **mark}

    if key := next((key for key in ("args", "arguments", "input") if key in fields), None):
        kept = {name: value for name, value in fields.items() if name != "partial_json"}
        return {**kept, key: json_object(text) if isinstance(fields[key], Mapping) else text}

    if is_of_anthropic(fields):
        message = _ANTHROPIC.rewrite({"role": "user", "content": [fields]}, {(0, 0): text})
        return cast("list[object]", message["content"])[0]
    return {**fields, "refusal" if fields.get("type") == "refusal" else "text": text}


def rename_call(call: Block, id_: str) -> Block:
    """Return a tool call of any form with another id."""
    return {**call, "call_id" if "call_id" in call else "id": id_}


_OF_A_USER: Final = ("document", "image", "tool_result")
_OF_ANTHROPIC: Final = (*_OF_A_USER, "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use")


def is_of_anthropic(block: Block) -> bool:
    """Return whether a block has a form that only Anthropic uses."""
    kind = _string(block, "type")
    if kind == "image":
        return "source" in block
    return kind in _OF_ANTHROPIC or kind.endswith("_tool_result")  # results of its hosted tools


def call_id(block: object) -> str | None:
    """Return the id of a tool call, a block or a raw one of OpenAI; None for other blocks."""
    if isinstance(block, Mapping) and "function" in block:
        return _string(cast(Block, block), "id")
    call = None if isinstance(block, str) else _call(cast(Block, block))
    return call.id if call else None


def read_result(content: object, call_id: str, name: str, *, is_error: bool) -> ToolResult:
    """Read a tool's result: texts and unknown blocks (as JSON) joined in order, and media."""
    parts = [read_block(block) for block in blocks_of(content)]
    text = "".join([part.text for part in parts if isinstance(part, Text | Opaque)])
    media = tuple([part for part in parts if isinstance(part, Media)])
    finds = tuple([found for part in parts if isinstance(part, Opaque) for found in part.finds])
    return ToolResult(call_id, text, name, is_error, media, finds)


def rewrite_result(content: object, text: str) -> object:
    """Return the content of a result with another text: a text as a text, a list as one text block that keeps its cache mark."""
    return _OPENAI.rewrite({"role": "tool", "content": content}, {(0, 0): text})["content"]


# -- the blocks of each kind

_CALL_ARGUMENTS: Final[Mapping[str, str]] = {
    "tool_use": "input",
    "tool_call": "args",
    "function_call": "arguments",
    "custom_tool_call": "input",
}
"""Types of blocks for a tool call (Anthropic and Bedrock, LangChain, OpenAI Responses twice), and their field of arguments."""


def _call(fields: Block) -> ToolCall | None:
    kind = fields.get("type")
    key = _CALL_ARGUMENTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        return None
    # In Responses items "id" names the item, "call_id" the tool call.
    return ToolCall(
        _string(fields, "call_id") or _string(fields, "id"), _string(fields, "name"), as_json_text(fields.get(key))
    )


def _string(fields: Block, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _data(fields: Block) -> Media | Text | None:
    """Read a data block of langchain-core 1 (`base64`, `url`, `file_id`, `text`) or 0 (`source_type`), or of Google (`data`)."""
    kind = _string(fields, "type")
    media_type = _string(fields, "mime_type") or _MEDIA_TYPES[kind]
    if text := _string(fields, "text"):
        return Text(text)

    name = _string(_with_nested(fields), "filename")
    if data := _string(fields, "base64") or _string(fields, "data"):
        return media_from_base64(data, media_type, name=name)
    if url := _string(fields, "url") or _string(fields, "file_uri"):
        return media_from_url(url, media_type, name=name)

    reference = _string(fields, "file_id") or (_string(fields, "id") if fields.get("source_type") == "id" else "")
    return Media(media_type, reference, is_reference=True, name=name) if reference else None


def _with_nested(fields: Block) -> Block:
    """Return the fields of a block with those that langchain-core nests in it."""
    nested = [cast(Block, fields[key]) for key in ("metadata", "extras") if isinstance(fields.get(key), Mapping)]
    return {key: value for block in (fields, *nested) for key, value in block.items()}


_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "application",
    "text-plain": "text/plain",
    "media": "application",
}


def _reasoning(fields: Block) -> Thinking:
    """Read reasoning of langchain-core 1 or of OpenAI's Responses, whose text is a list of summaries."""
    summaries = fields.get("summary")
    items = cast("list[object]", summaries) if isinstance(summaries, list) else []
    texts = [_string(cast(Block, item), "text") for item in items if isinstance(item, Mapping)]
    both = _with_nested(fields)
    sealed = _string(both, "encrypted_content") or _string(both, "signature")
    return Thinking(_string(fields, "reasoning") or "\n".join(texts), len(sealed))


def _non_standard(fields: Block) -> Part | None:
    """Read the blocks for which langchain-core has no standard ones; older versions have none for OpenAI's tool searches."""
    value = fields.get("value")
    is_known = isinstance(value, Mapping) and cast(Block, value).get("type") in _WITHOUT_STANDARD
    return read_block(cast(Block, value)) if is_known else None


_WITHOUT_STANDARD: Final = ("redacted_thinking", "compaction", "tool_search_call", "tool_search_output")


def _server_result(fields: Block) -> Part:
    """Read the result of a provider's tool in langchain-core's own form, with the tools that a search found."""
    (part,) = _ANTHROPIC.read({"role": "assistant", "content": [fields]})[0].parts
    extras, output = (cast(Block, fields.get(key) or {}) for key in ("extras", "output"))
    if extras.get("name") == "tool_search":
        found = read_block({"type": "tool_search_output", **output})
    else:
        found = read_block({"type": _string(extras, "block_type"), "content": output})
    if isinstance(found, Opaque) and isinstance(part, Opaque):
        return replace(part, finds=found.finds)
    return part


_READERS: Final[Mapping[str, Callable[[Block], Part | None]]] = {
    **dict.fromkeys(_MEDIA_TYPES, _data),
    "reasoning": _reasoning,
    "non_standard": _non_standard,
}
