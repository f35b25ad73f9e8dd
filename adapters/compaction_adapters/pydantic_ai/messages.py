"""pydantic-ai's messages, read into neutral ones."""

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
"""In the metadata of a request: it holds our summary."""

Item: TypeAlias = ModelRequestPart | ModelResponsePart | UserContent
"""A part, or one thing that a user's prompt holds."""


class PydanticAIFormat(PartsFormat[ModelMessage, Item]):
    """`ModelRequest` and `ModelResponse`. Each part of a request is a piece of its own, a response is one piece.

    What the framework notes in requests for itself (changed instructions and settings, prompts for one request) and its feedback
    on answers it could not use have the role "other": nobody asked for anything. Its notes of tools and capabilities that became
    available stand as the system prompt does: it counts on them for the rest of the conversation.
    """

    name = "pydantic_ai"

    def read(self, message: ModelMessage, /) -> tuple[Message, ...]:
        """Read one message.

        Raises:
            FormatError: it is none of pydantic-ai's.
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

        A `CompactionPart` would have the framework explain its own tags to the model, in a system message right behind the request.
        """
        return replace(self.request(text), metadata={SUMMARY_KEY: True})

    def merge(self, view: list[ModelMessage], /) -> list[ModelMessage]:
        """Return the view with user prompts in a row as one, those of one request too; the very list if there are none."""
        merged = merge_rows([_with_one_prompt(message) for message in view], _merge_pair)
        return view if len(merged) == len(view) and all(map(is_, merged, view)) else merged

    def cache_mark(self, message: ModelMessage, /) -> CachePoint | None:
        """Return the last `CachePoint` in the user prompts of a request; None without one."""
        prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
        marks = [item for prompt in prompts for item in _contents(prompt) if isinstance(item, CachePoint)]
        return marks[-1] if marks else None

    def with_cache_mark(self, summary: ModelMessage, mark: object, /) -> ModelMessage:
        """Return a copy of a summary with this `CachePoint` behind its text."""
        request = cast("ModelRequest", summary)  # as `summary` made it
        prompt = cast("UserPromptPart", request.parts[0])
        return replace(request, parts=[replace(prompt, content=[*_contents(prompt), cast("CachePoint", mark)])])

    def request(self, text: str, /) -> ModelMessage:
        """Return a new request with this text as the user's prompt, dated 1970: equal texts are equal requests."""
        return ModelRequest(parts=[UserPromptPart(text, timestamp=datetime.fromtimestamp(0, UTC))])

    def answer(self, message: ModelMessage, call: PartAddress, text: str, /) -> ModelMessage:
        """Return a request with the result of a call that was interrupted, dated as the response that holds the call.

        Raises:
            ConfigurationError: the address names no call.
        """
        part = self.call_at(message, call)
        said = cast("ModelResponse", message).timestamp
        returned = ToolReturnPart(part.name, text, part.id, timestamp=said, outcome="interrupted")
        return ModelRequest(parts=[returned])

    def pieces_of(self, message: ModelMessage, /) -> Pieces[Item]:
        """Return the parts of a response as one piece; of a request each part, or what is in a user's prompt."""
        if isinstance(message, ModelResponse):
            return [[*message.parts]]
        return [[*_held(part)] for part in message.parts]

    def with_pieces(self, message: ModelMessage, pieces: Pieces[Item], /) -> ModelMessage:
        """Return a copy that holds these parts."""
        if isinstance(message, ModelResponse):
            said = cast("list[ModelResponsePart | None]", pieces[0])
            return replace(message, parts=[part for part in said if part is not None])
        parts = map(_with_items, message.parts, pieces)
        return replace(message, parts=[part for part in parts if part is not None])

    def with_text(self, part: Item, text: str, /) -> Item:
        """Return a copy with another text, result text or arguments; a text for a user's image or file.

        Raises:
            ConfigurationError: it has no text.
        """
        match part:
            case ToolReturnPart():
                # A plain part: what remains of the text need not have the shape that a typed one promises.
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
        made = copy(part)  # the deprecated retry could not be made anew without a warning
        setattr(made, "tool_call_id", call_id)  # noqa: B010 - every kind that `read` takes for a call or a result has the field
        return made


# -- requests


def _request_piece(part: ModelRequestPart) -> Message:
    match part:
        case SystemPromptPart(scope="request"):
            return Message(role="other", parts=(Opaque(part.part_kind, part.content),))
        case SystemPromptPart():
            return Message(role="system", parts=(Text(part.content),))
        case UserPromptPart():
            return Message(role="user", parts=tuple(map(_part, _items(part))))
        case SpeechPart():
            return Message(role="user", parts=(_part(part),))
        case ToolReturnPart():
            return Message(role="tool", parts=(_part(part),))
        case CompactionPart():
            return Message(role="user", parts=(Text(part.content or ""),), is_summary=True)
        case _:
            return _framework_piece(part)


def _framework_piece(part: ModelRequestPart) -> Message:
    """What the framework itself put there. Its newest kinds of part are not in every version, so they go by their names."""
    if part.part_kind in _STANDING_KINDS:
        return Message(role="system", parts=(_part(part),))
    feedback = getattr(part, "model_response", None)
    if feedback is None:
        return Message(role="other", parts=(_part(part),))
    retried = _as_result(part, str(feedback()))
    return Message(role="other", parts=(Text(str(feedback())),)) if retried is None else _request_piece(retried)


def _as_result(part: object, text: str) -> ToolReturnPart | None:
    """The deprecated `RetryPromptPart` as the part it became, with this text; None unless it answers a call."""
    tool, call_id = getattr(part, "tool_name", None), getattr(part, "tool_call_id", None)
    if not isinstance(tool, str) or not isinstance(call_id, str):
        return None
    return ToolReturnPart(tool, text, call_id, outcome="retried")


_STANDING_KINDS: Final = ("capability-load-delta", "tool-availability-delta")
"""What was loaded, and which tools came up: the framework finds both in the messages only."""


def _items(part: UserPromptPart) -> Sequence[UserContent]:
    """What a user said, piece by piece; marks of a prompt cache say nothing."""
    return [item for item in _contents(part) if not isinstance(item, CachePoint)]


def _contents(part: UserPromptPart) -> Sequence[UserContent]:
    return (part.content,) if isinstance(part.content, str) else part.content


def _held(part: ModelRequestPart) -> Sequence[Item]:
    """What a user's prompt holds; any other part, and an empty prompt, as it is."""
    return (_items(part) if isinstance(part, UserPromptPart) else ()) or [part]


def _with_items(part: ModelRequestPart, items: Sequence[Item | None]) -> ModelRequestPart | None:
    """Return a part that holds these items, a user's prompt with the marks of a cache between them; None when none is left."""
    if all(map(is_, items, _held(part))):
        return part
    if items.count(None) == len(items) or not isinstance(part, UserPromptPart):
        return cast("ModelRequestPart | None", items[0])
    said = iter(cast("Sequence[UserContent | None]", items))
    if isinstance(part.content, str):
        return replace(part, content=cast("str", next(said)))
    content = [item if isinstance(item, CachePoint) else next(said) for item in part.content]
    return replace(part, content=[item for item in content if item is not None])


def _merge_pair(first: ModelMessage, second: ModelMessage) -> ModelMessage | None:
    """Return a copy of the second request with the parts of both; None unless a user prompt meets a user prompt."""
    if not (isinstance(first, ModelRequest) and isinstance(second, ModelRequest)):
        return None
    both = replace(second, parts=[*first.parts, *second.parts])
    merged = _with_one_prompt(both)
    return None if merged is both else merged


def _with_one_prompt(message: ModelMessage) -> ModelMessage:
    """Return a copy of a request with user prompts in a row as one; the message itself if there are none."""
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
    """How the call ended. The framework has one word for what the window and what the answer's own limit ended."""
    said = read_answer({"stop_reason": (message.provider_details or {}).get("finish_reason")})
    is_window = said is not None and said.stop_reason == "window"
    return "window" if is_window else _STOP_REASONS.get(message.finish_reason or "")


_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "complete",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "error",
    "error": "error",
}


def usage_of(message: ModelResponse) -> Usage | None:
    """Return what the provider counted for the context of a response; None when it told nothing.

    The framework counts cached tokens inside the input, whatever the provider does. Where one response took several requests
    their sum says nothing of the context; the framework notes the size of one in the response's metadata then.
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
    """Read a part, or one thing that a user's prompt holds."""
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
    """Read media; the detail asked for is OpenAI's notion, kept under its name by the framework."""
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
            asked = item.args_as_dict()
            # An MCP tool's name and arguments are wrapped in another call's.
            name = str(asked.get("tool_name", item.tool_name))
            return Opaque(kind, text, name=name, content=block_content(asked.get("tool_args", asked)))
        case NativeToolReturnPart():
            return Opaque(kind, text, name=item.tool_name, content=block_content(item.content))
        case _:
            return Opaque(kind, text)
