"""The format of pydantic-ai's messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import is_
from typing import Any, Final, TypeAlias, cast

from pydantic_ai import messages as ai
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_hooks import Message, Usage
from compaction_hooks.arguments import check_messages
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import (
    as_json_text,
    block_content,
    media_from_url,
    merge_rows,
    read_answer,
)
from compaction_hooks.messages import (
    Media,
    NativeSummary,
    Opaque,
    Part,
    PartAddress,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

SUMMARY_KEY: Final = "compaction-hooks.summary.v1"
"""The metadata key of a request that holds our summary."""

_SIGNATURE: Final = "thought_signature"
"""The key of Google's signature in a part's `provider_details`. pydantic-ai itself sends Google's placeholder for a missing one."""
_HOSTED_ID: Final = re.compile(r"(?:ws|fs|ci|ig|mcpl?|tsc)_")
"""The beginning of the ids of OpenAI's items of hosted tools: web and file search, code, images, MCP, tool search."""
_NO_PROVIDER: Final = ""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
Item: TypeAlias = ai.ModelRequestPart | ai.ModelResponsePart | ai.UserContent
"""A part of a message, or an item of a user prompt."""


def _foreign(message: object) -> FormatError:
    return FormatError(f"messages must be ModelRequest or ModelResponse, not {type(message).__name__}")


def check_list(messages: Sequence[ModelMessage]) -> None:
    """Refuse a value that is no list of pydantic-ai's messages.

    Raises:
        ConfigurationError: it is no list.
        FormatError: one of its messages is none of pydantic-ai's.
    """
    check_messages(messages)
    for message in messages:
        if not isinstance(message, ModelRequest | ModelResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _foreign(message)


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
            return _response(message)
        if isinstance(message, ModelRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            pieces = tuple(map(_request_piece, message.parts)) or (Message(role="other", parts=()),)
            is_ours = len(pieces) == 1 and SUMMARY_KEY in (message.metadata or {})
            return (replace(pieces[0], is_summary=True),) if is_ours else pieces
        raise _foreign(message)

    def summary(self, text: str, /) -> ModelMessage:
        """Return a new request with this text as the user's prompt, marked in its metadata.

        Not a `CompactionPart`: the framework explains its tags to the model in a system message directly after the request.
        """
        return replace(self.request(text), metadata={SUMMARY_KEY: True})

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[ModelMessage]:
        """Return a response with Anthropic's blocks or OpenAI's items; the messages that OpenAI kept next to its item are not sent.

        pydantic-ai sends nothing before such a part.
        """
        parts = [_native_part(item) for item in items if item.get("type") == "compaction"]
        return [ModelResponse(parts, timestamp=_EPOCH, provider_name=parts[0].provider_name)]

    def merge(self, view: list[ModelMessage], /) -> list[ModelMessage]:
        """Return the view with consecutive user prompts merged, also inside one request; the same list if there are none."""
        nothing = ModelRequest([])
        merged = merge_rows([_join_prompts(nothing, message) or message for message in view], _join_prompts)
        return view if len(merged) == len(view) and all(map(is_, merged, view)) else merged

    def cache_mark(self, message: ModelMessage, /) -> ai.CachePoint | None:
        """Return the last `CachePoint` in the user prompts of a request; None without one."""
        prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
        marks = [item for prompt in prompts for item in _contents(prompt) if isinstance(item, ai.CachePoint)]
        return marks[-1] if marks else None

    def with_cache_mark(self, summary: ModelMessage, mark: object, /) -> ModelMessage:
        """Return a copy of a summary with this `CachePoint` after its text."""
        (prompt,) = cast("tuple[UserPromptPart]", summary.parts)
        content = [*_contents(prompt), cast("ai.CachePoint", mark)]
        return ModelRequest([replace(prompt, content=content)], metadata=summary.metadata)

    def request(self, text: str, /) -> ModelMessage:
        """Return a new request with this text as the user's prompt, dated 1970: equal texts are equal requests."""
        return ModelRequest(parts=[UserPromptPart(text, timestamp=_EPOCH)])

    def answer(self, message: ModelMessage, call: PartAddress, text: str, /) -> ModelMessage:
        """Return a request with the result of an interrupted tool call, dated like the response with the tool call.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        part = self.call_at(message, call)
        result = ai.ToolReturnPart(part.name, text, part.id, outcome="interrupted")
        return ModelRequest([replace(result, timestamp=cast("ModelResponse", message).timestamp)])

    def untie(self, message: ModelMessage, /) -> ModelMessage:
        """Return a response without OpenAI's ids of items and Google's thought signatures; the message itself if it has none.

        Calls of OpenAI's hosted tools, which are sent by their ids alone, are sent no more.
        """
        if not isinstance(message, ModelResponse):
            return message
        parts = [*map(_untie, message.parts)]
        return message if all(map(is_, parts, message.parts)) else replace(message, parts=parts)

    def pieces_of(self, message: ModelMessage, /) -> Pieces[Item]:
        """Return the parts of a response as one piece; of a request each part, a user prompt as its items."""
        return _response_pieces(message) if isinstance(message, ModelResponse) else [*map(_items, message.parts)]

    def with_pieces(self, message: ModelMessage, pieces: Pieces[Any], /) -> ModelMessage:
        if isinstance(message, ModelResponse):
            return replace(message, parts=[part for piece in pieces for part in piece if part is not None])
        parts = map(_with_items, message.parts, pieces)
        return replace(message, parts=[part for part in parts if part is not None])

    def with_text(self, part: Item, text: str, /) -> Item:
        """Return a copy with another text, result text or arguments; a user's image or file becomes a text.

        Raises:
            ConfigurationError: the part has no text.
        """
        match part:
            case ai.TextPart() | ai.CompactionPart() | ai.TextContent():
                return replace(part, content=text)
            case ai.ToolCallPart():
                return replace(part, args=text)
            case ai.SpeechPart():
                return replace(part, transcript=text)
            case ai.ToolReturnPart(tool_name=name, tool_call_id=call_id):  # without the structure of a typed tool
                return ai.ToolReturnPart(
                    name, text, call_id, metadata=part.metadata, timestamp=part.timestamp, outcome=part.outcome
                )
            case _ if hasattr(part, "part_kind"):
                raise ConfigurationError(f"a {type(part).__name__} has no text to replace: take addresses from read()")
            case _:
                return text

    def with_id(self, part: Item, call_id: str, /) -> Item:
        return replace(cast("ai.ToolCallPart", part), tool_call_id=call_id)


# -- requests


_ROLES: Final[Mapping[str, Role]] = {
    "system-prompt": "system",
    "speech": "user",
    "tool-availability-delta": "system",
    "capability-load-delta": "system",
}
"""The roles of parts that are neither prompts nor results; all others are "other". Not all versions have all of these parts."""


def _request_piece(part: ai.ModelRequestPart) -> Message:
    match part:
        case UserPromptPart():
            return Message(role="user", parts=tuple(map(_part, _items(part) if part.content else ())))
        case ai.SystemPromptPart(scope="request"):
            return Message(role="other", parts=(Opaque(part.part_kind, part.content),))
        case ai.CompactionPart():
            return Message(role="user", parts=(Text(part.content or ""),), is_summary=True)
        case _:
            own = _part(part)
            role: Role = "tool" if isinstance(own, ToolResult) else _ROLES.get(part.part_kind, "other")
            return Message(role=role, parts=(own,))


def _contents(part: UserPromptPart) -> Sequence[ai.UserContent]:
    return (part.content,) if isinstance(part.content, str) else part.content


def _items(part: ai.ModelRequestPart) -> list[Any]:
    """Return the items of a user prompt without its cache marks; any other part, and an empty prompt, is its own only item."""
    contents = _contents(part) if isinstance(part, UserPromptPart) else ()
    return [item for item in contents if not isinstance(item, ai.CachePoint)] or [part]


def _with_items(part: ai.ModelRequestPart, items: list[Any]) -> ai.ModelRequestPart | None:
    """Return a part with these items, a user prompt also with its cache marks between them; None if no item is left."""
    if all(map(is_, items, _items(part))):
        return part
    if items.count(None) == len(items) or not isinstance(part, UserPromptPart):
        return cast("ai.ModelRequestPart | None", items[0])

    remaining = iter(items)
    marked = [item if isinstance(item, ai.CachePoint) else next(remaining) for item in _contents(part)]
    content: list[Any] = [item for item in marked if item is not None]
    return replace(part, content=content[0] if isinstance(part.content, str) else content)


def _join_prompts(first: ModelMessage, second: ModelMessage) -> ModelMessage | None:
    """Return a copy of the second request with the parts of both; None unless user prompts in them become one."""
    if not (isinstance(first, ModelRequest) and isinstance(second, ModelRequest)):
        return None
    parts = merge_rows(separate := [*first.parts, *second.parts], _merge_prompts)
    return None if parts is separate else replace(second, parts=parts)


def _merge_prompts(first: ai.ModelRequestPart, second: ai.ModelRequestPart) -> ai.ModelRequestPart | None:
    if not (isinstance(first, UserPromptPart) and isinstance(second, UserPromptPart)):
        return None
    if isinstance(first.content, str) and isinstance(second.content, str):
        return replace(second, content=f"{first.content}\n\n{second.content}")
    return replace(second, content=[*_contents(first), *_contents(second)])


# -- responses


def _response(message: ModelResponse) -> tuple[Message, ...]:
    is_whole, model = message.state == "complete", message.model_name
    *others, last = (tuple(map(_part, parts)) for parts in _response_pieces(message))
    answer = Message(
        role="assistant",
        parts=last,
        usage=usage_of(message) if is_whole else None,
        model=model,
        stop_reason=_stop_reason(message) if is_whole else "aborted",
    )
    return (*(Message(role="assistant", parts=parts, model=model) for parts in others), answer)


def _response_pieces(message: ModelResponse) -> list[list[Any]]:
    """Return the parts of a response by piece: a sealed summary of the provider's own is a piece of its own."""
    return [list(parts) for _, parts in groupby(message.parts, lambda part: _sealed(part) != "")] or [[]]


def _native_part(item: Mapping[str, Any]) -> ai.CompactionPart:
    details = {name: value for name, value in item.items() if name not in ("type", "content", "id")}
    name = "anthropic" if "content" in item else "openai"
    return ai.CompactionPart(item.get("content"), id=item.get("id"), provider_name=name, provider_details=details)


def _sealed(part: object) -> str:
    """Return the encrypted text of a summary that only its provider can read; "" for any other part."""
    if not isinstance(part, ai.CompactionPart) or part.content:
        return ""
    details = part.provider_details or {}
    return "" if "signature" in details else str(details.get("encrypted_content") or "")


_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "complete",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "error",
    "error": "error",
}


def _stop_reason(message: ModelResponse) -> StopReason | None:
    # The framework has one word for the context window and for the output limit.
    told = read_answer({"stop_reason": (message.provider_details or {}).get("finish_reason")})
    is_window = told is not None and told.stop_reason == "window"
    return "window" if is_window else _STOP_REASONS.get(message.finish_reason or "")


def _untie(part: ai.ModelResponsePart) -> ai.ModelResponsePart:
    """Return a part without the fields that tell a provider of earlier reasoning; the part itself if it has none."""
    if isinstance(part, ai.TextPart | ai.ToolCallPart) and part.id is not None:
        part = replace(part, id=None)
    elif isinstance(part, ai.NativeToolCallPart | ai.NativeToolReturnPart) and part.provider_name != _NO_PROVIDER:
        # The framework sends such a part by its id alone, and leaves it out if it is of another provider.
        part = replace(part, provider_name=_NO_PROVIDER) if _HOSTED_ID.match(part.tool_call_id) else part
    details = part.provider_details or {}
    if _SIGNATURE not in details:
        return part
    return replace(part, provider_details={name: value for name, value in details.items() if name != _SIGNATURE})


def usage_of(message: ModelResponse) -> Usage | None:
    """Return the provider's usage for the context of a response; None if there is none.

    The framework counts cached tokens inside the input for all providers. If one response took several requests, their sum is not
    the size of the context; the framework then notes the size of one request in the response's metadata.
    """
    usage, noted = message.usage, (message.metadata or {}).get("__pydantic_ai__", {})
    inputs = noted.get("context_input_tokens", noted.get("initial_input_tokens", usage.input_tokens))
    return None if not inputs or usage.unmeasured_requests else counts_of(inputs, message)


def counts_of(inputs: int, message: ModelResponse) -> Usage:
    """Return the counts of a response, with this input."""
    usage = message.usage
    return Usage(
        input_tokens=inputs,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


# -- parts


def _part(item: Item) -> Part:
    match item:
        case str():
            return Text(item)
        case ai.TextPart() | ai.TextContent() | ai.SystemPromptPart():
            return Text(item.content)
        case ai.ThinkingPart():
            return Thinking(item.content, len(item.signature or ""))
        case ai.SpeechPart():
            return Text(item.content) if item.content or item.audio is None else _part(item.audio)
        case ai.FilePart():
            return _part(item.content)
        case ai.ToolCallPart():
            signature = (item.provider_details or {}).get(_SIGNATURE)
            arguments = as_json_text(item.args) if item.args else ""
            return ToolCall(item.tool_call_id, item.tool_name, arguments, len(str(signature or "")))
        case ai.ToolReturnPart():
            text, is_error = (
                item.model_response_str(wrap_if_error=False),
                item.outcome in ("failed", "retried", "denied"),
            )
            media = tuple(filter(None, map(_media, item.files)))
            return ToolResult(item.tool_call_id, text, item.tool_name, is_error, media)
        case ai.RetryFeedbackPart():
            return Text(item.model_response())
        case _:
            return _media(item) or _opaque(item)


def _media(item: object) -> Media | None:
    """Read media; the framework keeps OpenAI's `detail` under its own name."""
    is_low = (getattr(item, "vendor_metadata", None) or dict[str, object]()).get("detail") == "low"
    match item:
        case ai.BinaryContent():
            identity = hashlib.sha256(item.data).hexdigest()
            return Media(item.media_type, identity, low_detail=is_low, data_chars=(len(item.data) + 2) // 3 * 4)
        case ai.UploadedFile():
            return Media(item.media_type or "application", item.file_id, is_reference=True, low_detail=is_low)
        case ai.ImageUrl() | ai.AudioUrl() | ai.VideoUrl() | ai.DocumentUrl():
            kind = item.kind.removesuffix("-url")
            return media_from_url(item.url, "application" if kind == "document" else kind, low_detail=is_low)
        case _:
            return None


def _opaque(item: Item) -> Opaque:
    kind, text = str(getattr(item, "part_kind", type(item).__name__)), repr(item)
    match item:
        case ai.CompactionPart(content=content) if content or _sealed(item):
            sealed = _sealed(item)
            is_first = bool(sealed) or "signature" in (item.provider_details or {})
            return NativeSummary(kind, content or text, content=content or "", sealed=sealed, is_first=is_first)
        case ai.NativeToolCallPart():
            arguments = item.args_as_dict()
            # The name and arguments of an MCP tool are arguments of another tool call.
            name = str(arguments.get("tool_name", item.tool_name))
            return Opaque(kind, text, name=name, content=block_content(arguments.get("tool_args", arguments)))
        case ai.NativeToolReturnPart():
            return Opaque(kind, text, name=item.tool_name, content=block_content(item.content))
        case _:
            return Opaque(kind, text)
