"""Neutral messages as plain JSON, in the forms of OpenAI chat and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult

ChatMessage: TypeAlias = Mapping[str, object]


def as_openai_chat(message: Message) -> ChatMessage:
    """Return a neutral message as an OpenAI chat message. Only the first of several results is used; media must be references."""
    match message.role:
        case "assistant":
            return _assistant(message)
        case "tool":
            result = message.results[0]
            content = _content((Text(result.text), *result.media))
            fields: dict[str, object] = {"role": "tool", "tool_call_id": result.call_id, "content": content}
            return {**fields, **({"name": result.name} if result.name else {}), **_error(result)}
        case "other":
            return {"role": "critic", "content": _content(message.parts)}
        case role:
            return {"role": role, "content": _content(message.parts)}


def _assistant(message: Message) -> ChatMessage:
    spoken = tuple(part for part in message.parts if isinstance(part, Text))
    fields: dict[str, object] = {"role": "assistant", "content": _content(spoken) if spoken else None}

    thoughts = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    if thoughts:
        fields["reasoning_content"] = thoughts
    if message.calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    return fields


def _content(parts: tuple[Part, ...]) -> object:
    """Return a single text as a string, anything else as a list of parts."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_openai_part(part) for part in parts]


def _openai_part(part: Part) -> ChatMessage:
    if isinstance(part, Media):
        return {"type": "image_url", "image_url": {"url": part.identity}}
    return {"type": "text", "text": part.text if isinstance(part, Text | Opaque) else ""}


def _error(result: ToolResult) -> ChatMessage:
    return {"is_error": True} if result.is_error else {}


def as_anthropic(messages: Iterable[Message]) -> list[ChatMessage]:
    """Return a conversation as Anthropic messages; results and the user's text after them share one user message.

    A system message keeps its role; the caller must remove it.
    """
    found: list[tuple[str, list[ChatMessage]]] = []
    for message in messages:
        role = "user" if message.role == "tool" else message.role
        if found and found[-1][0] == role == "user":
            found[-1][1].extend(map(_anthropic_block, message.parts))
        else:
            found.append((role, list(map(_anthropic_block, message.parts))))
    return [{"role": role, "content": blocks} for role, blocks in found]


def _anthropic_block(part: Part) -> ChatMessage:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text):
            return {"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}
        case Media():
            return {"type": "image", "source": {"type": "url", "url": part.identity}}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _object(part.arguments)}
        case ToolResult():
            content = [{"type": "text", "text": part.text}, *map(_anthropic_block, part.media)]
            return {"type": "tool_result", "tool_use_id": part.call_id, "content": content, **_error(part)}
        case Opaque():
            return {"type": part.kind, "text": part.text}


def _object(arguments: str) -> object:
    """Return arguments as an object, as Anthropic requires; other values are put under "arguments"."""
    try:
        value: object = json.loads(arguments or "{}")
    except ValueError:
        value = arguments
    return cast("object", value) if isinstance(value, dict) else {"arguments": value}
