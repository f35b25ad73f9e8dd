"""The forms in which providers take a conversation: neutral messages written as plain JSON, and the answers of providers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compaction_hooks import Usage
from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
    json_object,
)
from compaction_hooks.messages import Media, Message, MessageFormat, Part, Thinking, ToolCall, ToolResult
from compaction_hooks.testing.hosts import ChatMessage, as_anthropic, as_openai_chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A message form for conversations.

    Attributes:
        format: Reads its messages.
        apart: The same for a list to store, in which the user may speak twice in a row.
        write: Converts neutral messages. Those of a translated conversation may lack the tool's name in a result.
        respond: Returns a provider's response with these messages of one answer and usage.
    """

    format: MessageFormat[ChatMessage]
    apart: MessageFormat[ChatMessage]
    write: Callable[[Iterable[Message]], list[ChatMessage]]
    respond: Callable[[Sequence[ChatMessage], Usage], ChatMessage]


def _text(part: Part) -> str:
    """Return the text of a part that no other form of the dialect fits; a reference to media is its address."""
    return part.identity if isinstance(part, Media) else part.text if not isinstance(part, ToolCall) else part.arguments


# -- OpenAI


def _openai_response(messages: Sequence[ChatMessage], usage: Usage) -> ChatMessage:
    counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    choice = {"message": messages[0], "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice], "usage": counted}


def _as_responses(messages: Iterable[Message]) -> list[ChatMessage]:
    """Return a conversation as items of Responses: reasoning, calls and results are items of their own."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> Iterable[ChatMessage]:
    words = [part for part in message.parts if not isinstance(part, Thinking | ToolCall | ToolResult)]
    for part in message.parts:
        if isinstance(part, Thinking):
            yield {"type": "reasoning", "summary": [{"type": "summary_text", "text": part.text}]}
    if words or not message.parts:
        role = "critic" if message.role == "other" else message.role
        kind = "output_text" if role == "assistant" else "input_text"
        yield {"type": "message", "role": role, "content": [_responses_part(part, kind) for part in words]}

    for part in message.parts:
        if isinstance(part, ToolCall):
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
        if isinstance(part, ToolResult):
            media = [_responses_part(one, "input_text") for one in part.media]
            output = [{"type": "input_text", "text": part.text}, *media] if media else part.text
            failed = {"status": "failed"} if part.is_error else {}
            yield {"type": "function_call_output", "call_id": part.call_id, "output": output, **failed}


def _responses_part(part: Part, kind: str) -> ChatMessage:
    return (
        {"type": "input_image", "image_url": part.identity}
        if isinstance(part, Media)
        else {"type": kind, "text": _text(part)}
    )


def _responses_response(messages: Sequence[ChatMessage], usage: Usage) -> ChatMessage:
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return {"object": "response", "status": "completed", "output": [*messages], "usage": counted}


# -- forms with lists of blocks, in which results are the user's


def _anthropic_response(messages: Sequence[ChatMessage], usage: Usage) -> ChatMessage:
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return {"type": "message", **messages[0], "stop_reason": "end_turn", "usage": counted}


def _rows(messages: Iterable[Message]) -> list[tuple[str, list[Part]]]:
    """Return the speakers with their parts; results and the user's text after them share one message."""
    rows: list[tuple[str, list[Part]]] = []
    for message in messages:
        role = "user" if message.role == "tool" else "critic" if message.role == "other" else message.role
        if rows and rows[-1][0] == role == "user":
            rows[-1][1].extend(message.parts)
        else:
            rows.append((role, [*message.parts]))
    return rows


def _as_gemini(messages: Iterable[Message]) -> list[ChatMessage]:
    roles = {"assistant": "model"}
    return [{"role": roles.get(role, role), "parts": [*map(_gemini_part, parts)]} for role, parts in _rows(messages)]


def _gemini_part(part: Part) -> ChatMessage:
    match part:
        case Thinking(text):
            return {"text": text, "thought": True}
        case Media():
            return {"fileData": {"fileUri": part.identity, "mimeType": "image/png"}}
        case ToolCall():
            return {"functionCall": {"id": part.id, "name": part.name, "args": json_object(part.arguments)}}
        case ToolResult():
            response = {"error" if part.is_error else "output": part.text}
            media = {"parts": [*map(_gemini_part, part.media)]} if part.media else {}
            named = {"id": part.call_id, "name": part.name or "tool"}
            return {"functionResponse": {**named, "response": response, **media}}
        case _:
            return {"text": _text(part)}


def _gemini_response(messages: Sequence[ChatMessage], usage: Usage) -> ChatMessage:
    counted = {"promptTokenCount": usage.input_tokens, "candidatesTokenCount": usage.output_tokens}
    return {"candidates": [{"content": messages[0], "finishReason": "STOP"}], "usageMetadata": counted}


def _as_bedrock(messages: Iterable[Message]) -> list[ChatMessage]:
    return [{"role": role, "content": [*map(_bedrock_block, parts)]} for role, parts in _rows(messages)]


def _bedrock_block(part: Part) -> ChatMessage:
    match part:
        case Thinking(text):
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": "c2lnbmF0dXJl"}}}
        case Media():
            return {"image": {"format": "png", "source": {"s3Location": {"uri": part.identity}}}}
        case ToolCall():
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": json_object(part.arguments)}}
        case ToolResult():
            content = [{"text": part.text}, *map(_bedrock_block, part.media)]
            status = "error" if part.is_error else "success"
            return {"toolResult": {"toolUseId": part.call_id, "content": content, "status": status}}
        case _:
            return {"text": _text(part)}


def _bedrock_response(messages: Sequence[ChatMessage], usage: Usage) -> ChatMessage:
    counted: dict[str, Any] = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    return {"output": {"message": messages[0]}, "stopReason": "end_turn", "usage": counted}


class _ConverseApart(BedrockConverseFormat):
    """Converse messages by the rules for any provider, of which none forbids two messages of one speaker in a row."""

    provider = None  # type: ignore[assignment]


OPENAI_CHAT: Final = Dialect(
    format=OpenAIChatFormat(),
    apart=OpenAIChatFormat(),
    write=lambda messages: [as_openai_chat(message) for message in messages],
    respond=_openai_response,
)
RESPONSES: Final = Dialect(
    format=OpenAIResponsesFormat(), apart=OpenAIResponsesFormat(), write=_as_responses, respond=_responses_response
)
ANTHROPIC: Final = Dialect(
    format=AnthropicFormat(), apart=AnthropicFormat(), write=as_anthropic, respond=_anthropic_response
)
GEMINI: Final = Dialect(format=GeminiFormat(), apart=GeminiFormat(), write=_as_gemini, respond=_gemini_response)
BEDROCK: Final = Dialect(
    format=BedrockConverseFormat(), apart=_ConverseApart(), write=_as_bedrock, respond=_bedrock_response
)
DIALECTS: Final = (OPENAI_CHAT, ANTHROPIC, RESPONSES, GEMINI, BEDROCK)
