"""The format of pydantic-ai's messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from operator import is_
from typing import Any, Final, TypeAlias, cast

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_hooks import Message, Usage
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import as_json_text, block_content, media_from_url, merge_rows, read_answer
from compaction_hooks.messages import Media, Opaque, Part, PartAddress, StopReason, Text, Thinking, ToolCall, ToolResult

SUMMARY_KEY: Final = "compaction-hooks.summary.v1"
"""The metadata key of a request that holds our summary."""

Item: TypeAlias = ModelRequestPart | ModelResponsePart | UserContent
"""A part of a message, or an item of a user prompt."""


class PydanticAIFormat(PartsFormat[ModelMessage, Item]):
    """The format of `ModelRequest` and `ModelResponse`. Each part of a request is a piece of its own, a response is one piece.

    The framework's own notes in requests (changed instructions and settings, prompts for one request) and its feedback on unusable
    answers have the role "other": they are no requests of the user. Its notes of tools and capabilities that became available have
    the role "system": the framework needs them for the rest of the conversation.
    """

    name = "pydantic_ai"

    def read(self, message: ModelMessage, /) -> tuple[Message, ...]:
        """Read one message.

        Raises:
            FormatError: the message is none of pydantic-ai's.
        """
        if isinstance(message, ModelResponse):
            return (_response(message),)
        if isinstance(message, ModelRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            pieces = tuple(map(_request_piece, message.parts)) or (Message(role="other", parts=()),)
            is_ours = len(pieces) == 1 and SUMMARY_KEY in (message.metadata or {})
            return (replace(pieces[0], is_summary=True),) if is_ours else pieces
        raise FormatError(f"messages must be ModelRequest or ModelResponse, not {type(message).__name__}")

    def summary(self, text: str, /) -> ModelMessage:
        """Return a new request with this text as the user's prompt, marked in its metadata.

        Not a `CompactionPart`: the framework explains its tags to the model in a system message directly after the request.
        """
        return replace(self.request(text), metadata={SUMMARY_KEY: True})

    def merge(self, view: list[ModelMessage], /) -> list[ModelMessage]:
        """Return the view with consecutive user prompts merged, also inside one request; the same list if there are none."""
        merged = merge_rows([_with_one_prompt(message) for message in view], _merge_pair)
        return view if len(merged) == len(view) and all(map(is_, merged, view)) else merged

    def cache_mark(self, message: ModelMessage, /) -> CachePoint | None:
        """Return the last `CachePoint` in the user prompts of a request; None without one."""
        prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
        marks = [item for prompt in prompts for item in _contents(prompt) if isinstance(item, CachePoint)]
        return marks[-1] if marks else None

    def with_cache_mark(self, summary: ModelMessage, mark: object, /) -> ModelMessage:
        """Return a copy of a summary with this `CachePoint` after its text."""
        request = cast("ModelRequest", summary)  # `summary` returns one
        prompt = cast("UserPromptPart", request.parts[0])
        return replace(request, parts=[replace(prompt, content=[*_contents(prompt), cast("CachePoint", mark)])])

    def request(self, text: str, /) -> ModelMessage:
        """Return a new request with this text as the user's prompt, dated 1970: equal texts are equal requests."""
        return ModelRequest(parts=[UserPromptPart(text, timestamp=datetime.fromtimestamp(0, UTC))])

    def answer(self, message: ModelMessage, call: PartAddress, text: str, /) -> ModelMessage:
        """Return a request with the result of an interrupted tool call, dated like the response with the tool call.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        part = self.call_at(message, call)
        timestamp = cast("ModelResponse", message).timestamp
        result = ToolReturnPart(part.name, text, part.id, timestamp=timestamp, outcome="interrupted")
        return ModelRequest(parts=[result])

    def pieces_of(self, message: ModelMessage, /) -> Pieces[Item]:
        """Return the parts of a response as one piece; of a request each part, a user prompt as its items."""
        if isinstance(message, ModelResponse):
            return [[*message.parts]]
        return [[*_part_items(part)] for part in message.parts]

    def with_pieces(self, message: ModelMessage, pieces: Pieces[Item], /) -> ModelMessage:
        """Return a copy that holds these parts."""
        if isinstance(message, ModelResponse):
            kept = cast("list[ModelResponsePart | None]", pieces[0])
            return replace(message, parts=[part for part in kept if part is not None])
        parts = map(_with_items, message.parts, pieces)
        return replace(message, parts=[part for part in parts if part is not None])

    def with_text(self, part: Item, text: str, /) -> Item:
        """Return a copy with another text, result text or arguments; a user's image or file becomes a text.

        Raises:
            ConfigurationError: the part has no text.
        """
        match part:
            case ToolReturnPart():
                # A plain part: a shortened text need not have the structure that a typed part promises.
                return ToolReturnPart(
                    part.tool_name,
                    text,
                    part.tool_call_id,
                    metadata=part.metadata,
                    timestamp=part.timestamp,
                    outcome=part.outcome,
                )
            case TextPart() | CompactionPart():
                return replace(part, content=text)
            case ToolCallPart():
                return replace(part, args=text)
            case SpeechPart():
                return replace(part, transcript=text)
            case TextContent():
                return TextContent(text, metadata=part.metadata)
            case _ if not hasattr(part, "part_kind"):
                return text
            case _:
                result = _as_result(part, text)
                if result is None:
                    raise ConfigurationError(
                        f"a {type(part).__name__} has no text that could be another: take addresses from read()"
                    )
                return result

    def with_id(self, part: Item, call_id: str, /) -> Item:
        """Return a copy of a call or a result with another id."""
        clone = copy(part)  # not replace(): the constructor of the deprecated RetryPromptPart warns
        setattr(clone, "tool_call_id", call_id)  # noqa: B010 - all parts that `read` takes for a call or a result have the field
        return clone


# -- requests


def _request_piece(part: ModelRequestPart) -> Message:
    match part:
        case SystemPromptPart(scope="request"):
            return Message(role="other", parts=(Opaque(part.part_kind, part.content),))
        case SystemPromptPart():
            return Message(role="system", parts=(Text(part.content),))
        case UserPromptPart():
            return Message(role="user", parts=tuple(map(_part, _prompt_items(part))))
        case SpeechPart():
            return Message(role="user", parts=(_part(part),))
        case ToolReturnPart():
            return Message(role="tool", parts=(_part(part),))
        case CompactionPart():
            return Message(role="user", parts=(Text(part.content or ""),), is_summary=True)
        case _:
            return _framework_piece(part)


def _framework_piece(part: ModelRequestPart) -> Message:
    """Read a part of the framework's own. Some kinds are not in all versions, so they are compared by name, not type."""
    if part.part_kind in _SYSTEM_KINDS:
        return Message(role="system", parts=(_part(part),))
    feedback = getattr(part, "model_response", None)
    if feedback is None:
        return Message(role="other", parts=(_part(part),))
    retried = _as_result(part, str(feedback()))
    return Message(role="other", parts=(Text(str(feedback())),)) if retried is None else _request_piece(retried)


def _as_result(part: object, text: str) -> ToolReturnPart | None:
    """Return the deprecated `RetryPromptPart` as its successor with this text; None unless it answers a tool call."""
    tool, call_id = getattr(part, "tool_name", None), getattr(part, "tool_call_id", None)
    if not isinstance(tool, str) or not isinstance(call_id, str):
        return None
    return ToolReturnPart(tool, text, call_id, outcome="retried")


_SYSTEM_KINDS: Final = ("capability-load-delta", "tool-availability-delta")
"""Notes of loaded capabilities and available tools; the framework keeps both in the messages only."""


def _prompt_items(part: UserPromptPart) -> Sequence[UserContent]:
    """Return the items of a user prompt without its cache marks."""
    return [item for item in _contents(part) if not isinstance(item, CachePoint)]


def _contents(part: UserPromptPart) -> Sequence[UserContent]:
    return (part.content,) if isinstance(part.content, str) else part.content


def _part_items(part: ModelRequestPart) -> Sequence[Item]:
    """Return the items of a user prompt; any other part, and an empty prompt, is its own only item."""
    return (_prompt_items(part) if isinstance(part, UserPromptPart) else ()) or [part]


def _with_items(part: ModelRequestPart, items: Sequence[Item | None]) -> ModelRequestPart | None:
    """Return a part with these items, a user prompt also with its cache marks between them; None if no item is left."""
    if all(map(is_, items, _part_items(part))):
        return part
    if items.count(None) == len(items) or not isinstance(part, UserPromptPart):
        return cast("ModelRequestPart | None", items[0])

    remaining = iter(cast("Sequence[UserContent | None]", items))
    if isinstance(part.content, str):
        return replace(part, content=cast("str", next(remaining)))
    content = [item if isinstance(item, CachePoint) else next(remaining) for item in part.content]
    return replace(part, content=[item for item in content if item is not None])


def _merge_pair(first: ModelMessage, second: ModelMessage) -> ModelMessage | None:
    """Return a copy of the second request with the parts of both; None unless user prompts become neighbors."""
    if not (isinstance(first, ModelRequest) and isinstance(second, ModelRequest)):
        return None
    both = replace(second, parts=[*first.parts, *second.parts])
    merged = _with_one_prompt(both)
    return None if merged is both else merged


def _with_one_prompt(message: ModelMessage) -> ModelMessage:
    """Return a copy of a request with consecutive user prompts merged; the message itself if there are none."""
    if isinstance(message, ModelResponse):
        return message
    before: list[ModelRequestPart] = [*message.parts]
    parts = merge_rows(before, _merge_prompts)
    return message if parts is before else replace(message, parts=parts)


def _merge_prompts(first: ModelRequestPart, second: ModelRequestPart) -> ModelRequestPart | None:
    if not (isinstance(first, UserPromptPart) and isinstance(second, UserPromptPart)):
        return None
    if isinstance(first.content, str) and isinstance(second.content, str):
        return replace(second, content=f"{first.content}\n\n{second.content}")
    return replace(second, content=[*_contents(first), *_contents(second)])


# -- responses


def _response(message: ModelResponse) -> Message:
    is_whole = message.state == "complete"
    return Message(
        role="assistant",
        parts=tuple(map(_part, message.parts)),
        usage=usage_of(message) if is_whole else None,
        model=message.model_name,
        stop_reason=_stop_reason(message) if is_whole else "aborted",
    )


def _stop_reason(message: ModelResponse) -> StopReason | None:
    """Return how the call ended. The framework has one word for the context window and for the output limit."""
    answer = read_answer({"stop_reason": (message.provider_details or {}).get("finish_reason")})
    is_window = answer is not None and answer.stop_reason == "window"
    return "window" if is_window else _STOP_REASONS.get(message.finish_reason or "")


_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "complete",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "error",
    "error": "error",
}


def usage_of(message: ModelResponse) -> Usage | None:
    """Return the provider's usage for the context of a response; None if there is none.

    The framework counts cached tokens inside the input for all providers. If one response took several requests, their sum is not
    the size of the context; the framework then notes the size of one request in the response's metadata.
    """
    usage = message.usage
    noted: Mapping[str, int] = (message.metadata or {}).get("__pydantic_ai__", {})
    inputs = noted.get("context_input_tokens", noted.get("initial_input_tokens", usage.input_tokens))
    if not inputs or usage.unmeasured_requests:
        return None
    return Usage(
        input_tokens=inputs,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


# -- parts


def _part(item: Item) -> Part:
    """Read a part, or an item of a user prompt."""
    match item:
        case str():
            return Text(item)
        case TextPart() | TextContent():
            return Text(item.content)
        case ThinkingPart():
            return Thinking(item.content, len(item.signature or ""))
        case SpeechPart():
            return Text(item.content) if item.content or item.audio is None else _part(item.audio)
        case FilePart():
            return _part(item.content)
        case ToolCallPart():
            signature = (item.provider_details or {}).get("thought_signature")
            arguments = as_json_text(item.args) if item.args else ""
            return ToolCall(item.tool_call_id, item.tool_name, arguments, len(str(signature or "")))
        case ToolReturnPart():
            text, is_error = item.model_response_str(wrap_if_error=False), item.outcome in ("failed", "retried")
            media = tuple(found for found in map(_media, item.files) if found is not None)
            return ToolResult(item.tool_call_id, text, item.tool_name, is_error, media)
        case _:
            return _media(item) or _opaque(item)


def _media(item: object) -> Media | None:
    """Read media; the framework keeps OpenAI's `detail` under its own name."""
    details: Mapping[str, Any] = getattr(item, "vendor_metadata", None) or {}
    is_low = details.get("detail") == "low"
    match item:
        case BinaryContent():
            base64_chars, identity = (len(item.data) + 2) // 3 * 4, hashlib.sha256(item.data).hexdigest()
            return Media(item.media_type, identity, low_detail=is_low, data_chars=base64_chars)
        case UploadedFile():
            return Media(item.media_type or "application", item.file_id, is_reference=True, low_detail=is_low)
        case ImageUrl() | AudioUrl() | VideoUrl() | DocumentUrl():
            kind = item.kind.removesuffix("-url")
            return media_from_url(item.url, "application" if kind == "document" else kind, low_detail=is_low)
        case _:
            return None


def _opaque(item: Item) -> Opaque:
    kind, text = str(getattr(item, "part_kind", type(item).__name__)), repr(item)
    match item:
        case CompactionPart():
            return Opaque(kind, item.content or text, content=item.content or "")
        case NativeToolCallPart():
            arguments = item.args_as_dict()
            # The name and arguments of an MCP tool are arguments of another tool call.
            name = str(arguments.get("tool_name", item.tool_name))
            return Opaque(kind, text, name=name, content=block_content(arguments.get("tool_args", arguments)))
        case NativeToolReturnPart():
            return Opaque(kind, text, name=item.tool_name, content=block_content(item.content))
        case _:
            return Opaque(kind, text)
