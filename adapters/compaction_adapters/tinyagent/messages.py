"""The format of tinyagent's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_hooks import Message, Usage
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import as_json_text, json_object, media_from_url, merge_rows
from compaction_hooks.messages import (
    Media,
    Part,
    PartAddress,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

Item: TypeAlias = TextContent | ImageContent | ThinkingContent | ToolCallContent | AgentMessage
"""A block; or a message without blocks, as its own only part."""


class TinyAgentFormat(PartsFormat[AgentMessage, Item]):
    """tinyagent's message models."""

    name = "tinyagent"

    def read(self, message: AgentMessage, /) -> Sequence[Message]:
        """Return one neutral message; a custom role becomes "other".

        Raises:
            FormatError: the message has no role.
        """
        if isinstance(message, UserMessage):
            return (Message(role="user", parts=_contents(message.content)),)
        if isinstance(message, AssistantMessage):
            return (_assistant(message),)
        if isinstance(message, ToolResultMessage):
            return (Message(role="tool", parts=(_result(message),)),)

        if not hasattr(message, "role"):
            raise FormatError(
                f"tinyagent messages have a role; {type(message).__name__} has none: pass its message models"
            )
        return (Message(role="other", parts=(Text(repr(message)),)),)

    def summary(self, text: str, /) -> AgentMessage:
        """Return a user message with this text."""
        return UserMessage(content=[TextContent(text=text)])

    def merge(self, view: list[AgentMessage], /) -> list[AgentMessage]:
        """Return the view with consecutive user messages merged; the same list if there are none."""
        return merge_rows(view, _merge_pair)

    request = summary

    def answer(self, message: AgentMessage, call: PartAddress, text: str, /) -> AgentMessage:
        """Return a failed tool result for this call."""
        part = self.call_at(message, call)
        content: list[TextContent | ImageContent] = [TextContent(text=text)]
        return ToolResultMessage(tool_call_id=part.id, tool_name=part.name, content=content, is_error=True)

    def pieces_of(self, message: AgentMessage, /) -> Pieces[Item]:
        """Return the blocks of a user or assistant message; any other message is its own only part."""
        if isinstance(message, AssistantMessage | UserMessage):
            return [[block for block in message.content if block is not None]]
        return [[message]]

    def with_pieces(self, message: AgentMessage, pieces: Pieces[Item], /) -> AgentMessage:
        """Return a copy that holds these blocks."""
        kept = [part for part in pieces[0] if part is not None]
        if isinstance(message, AssistantMessage | UserMessage):
            return message.model_copy(update={"content": kept})
        return cast("AgentMessage", kept[0]) if kept else message

    def with_text(self, part: Item, text: str, /) -> Item:
        """Return a copy with another text, result text or arguments; an image becomes a text."""
        match part:
            case TextContent():
                return part.model_copy(update={"text": text})
            case ImageContent():
                return TextContent(text=text)
            case ToolCallContent():
                return part.model_copy(update={"arguments": json_object(text), "partial_json": None})
            case ToolResultMessage():
                return part.model_copy(update={"content": [TextContent(text=text)]})
            case _:
                return part

    def with_id(self, part: Item, call_id: str, /) -> Item:
        """Return a copy of a call or a result with another id."""
        if isinstance(part, ToolResultMessage):
            return part.model_copy(update={"tool_call_id": call_id})
        return part.model_copy(update={"id": call_id}) if isinstance(part, ToolCallContent) else part


def _merge_pair(first: AgentMessage, second: AgentMessage) -> AgentMessage | None:
    if not (isinstance(first, UserMessage) and isinstance(second, UserMessage)):
        return None

    blocks = [*first.content, *second.content]
    number = len(first.content) - 1
    match blocks[max(number, 0) : number + 2]:
        case [TextContent() as one, TextContent() as other] if one.cache_control is None:
            # Providers join the texts of one message without a separator.
            blocks[number : number + 2] = [other.model_copy(update={"text": f"{one.text}\n\n{other.text}"})]
        case _:
            pass
    return second.model_copy(update={"content": blocks})


def _contents(blocks: Sequence[TextContent | ImageContent]) -> tuple[Text | Media, ...]:
    return tuple(
        Text(block.text or "")
        if isinstance(block, TextContent)
        else media_from_url(block.url or "", block.mime_type or "image")
        for block in blocks
    )


def _assistant(message: AssistantMessage) -> Message:
    parts: list[Part] = []
    for block in message.content:
        match block:
            case TextContent():
                parts.append(Text(block.text or ""))
            case ThinkingContent():
                parts.append(Thinking(block.thinking or "", len(block.thinking_signature or "")))
            case ToolCallContent():
                arguments = as_json_text(block.arguments)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                parts.append(ToolCall(block.id or "", block.name or "", arguments))
            case None:
                pass

    return Message(
        role="assistant",
        parts=tuple(parts),
        usage=usage_of(message.usage, message.api),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        model=message.model,
        stop_reason=_STOP_REASONS.get(message.stop_reason or ""),
    )


_STOP_REASONS: dict[str, StopReason] = {
    "complete": "complete",
    "stop": "complete",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "error": "error",
    "aborted": "aborted",
}


def _result(message: ToolResultMessage) -> ToolResult:
    parts = _contents(message.content)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return ToolResult(
        message.tool_call_id or "",
        text,
        message.tool_name or "",
        message.is_error,
        tuple(part for part in parts if isinstance(part, Media)),
    )


def usage_of(fields: Mapping[str, object] | None, api: str | None = None) -> Usage | None:
    """Return tinyagent's usage with all input counted once; None if it has no number.

    Args:
        api: The message's `api`. "anthropic-messages" counts cached tokens in addition to `input`, and the binding leaves them out
            of `total_tokens` too (1.2.29); OpenAI-like APIs count them inside. For an unknown `api` they are added if they are
            more than `input`, or if `total_tokens` includes them.
    """
    counts = {name: value for name, value in (fields or {}).items() if isinstance(value, int)}
    if not counts:
        return None

    uncached, output = counts.get("input", 0), counts.get("output", 0)
    read, written = counts.get("cache_read", 0), counts.get("cache_write", 0)
    excludes_cached = "anthropic" in (api or "") or read + written > uncached
    whole = max(uncached + (read + written) * excludes_cached, counts.get("total_tokens", 0) - output)
    return Usage(input_tokens=whole, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)
