"""An assistant's message: its parts and the fields that hold them, the facts about its call, and the ties to its reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, Final, Literal, NamedTuple, cast

from langchain_core.messages import AIMessage, AIMessageChunk

from compaction_adapters.langchain_core.blocks import (
    Block,
    blocks_of,
    call_id,
    read_block,
    rename_call,
    rewrite_block,
)
from compaction_hooks import Message, Usage
from compaction_hooks.formats import OpenAIResponsesFormat, as_json_text, read_answer
from compaction_hooks.messages import Part, StopReason, Thinking, ToolCall

_LISTS: Final = ("tool_calls", "invalid_tool_calls")


class Place(NamedTuple):
    """The place of an assistant's part: a field of the message, and the position in it.

    Attributes:
        text: The new text or arguments to write there; None for no change.
        id: The new id of a tool call; None for no change.
    """

    part: Part
    field: Literal["reasoning", "content", "tool_calls", "invalid_tool_calls"]
    position: int = 0
    text: str | None = None
    id: str | None = None

    def write(self, value: object) -> object:
        """Return a block or tool call with the new text and id, in any of the forms that a message repeats it in."""
        if self.text is not None:
            value = rewrite_block(value, self.text)
        return value if self.id is None else rename_call(cast(Block, value), self.id)


def places_of(message: AIMessage) -> list[Place]:
    """Return all parts in order: reasoning, content, tool calls. A block that repeats a call of the list is left out."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    listed = {call["id"] for call in calls if call["id"]}
    signatures = _signatures(message)

    found = [Place(part, "reasoning") for part in _reasoning_kwargs(message)]
    for index, block in enumerate(blocks_of(message.content)):
        if (id_ := call_id(block)) is None or id_ not in listed:
            found.append(Place(read_block(block), "content", index))

    for field in _LISTS:
        for index, call in enumerate(getattr(message, field)):
            found.append(Place(_call(call, signatures), field, index))
    return found


def _call(call: Mapping[str, object], signatures: Mapping[str, object]) -> ToolCall:
    id_ = str(call.get("id") or "")
    return ToolCall(
        id_, str(call.get("name") or ""), as_json_text(call.get("args")), len(str(signatures.get(id_) or ""))
    )


_SIGNATURES: Final = "__gemini_function_call_thought_signatures__"
"""The key of langchain-google-genai (4.4) for the thought signatures of tool calls, by call id."""


def _signatures(message: AIMessage) -> Mapping[str, object]:
    found = message.additional_kwargs.get(_SIGNATURES)
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _reasoning_kwargs(message: AIMessage) -> list[Part]:
    """Read the reasoning next to the content: that of DeepSeek, xAI, Groq and Ollama, or an item of OpenAI's Responses."""
    kwargs = message.additional_kwargs
    found = kwargs.get("reasoning_content") or kwargs.get("reasoning")
    if isinstance(found, Mapping):
        return [read_block({**cast(Block, found), "type": "reasoning"})]
    return [Thinking(found)] if isinstance(found, str) and found else []


_REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking_blocks", "reasoning_details")
"""Keys of reasoning next to the content; the last two repeat it with signatures (LiteLLM, OpenRouter)."""


def with_places(message: AIMessage, places: Sequence[Place | None]) -> AIMessage:
    """Return a copy with the changes of these places; None leaves a part out, which must not be a call of its lists.

    A changed call is changed in its copies, too: blocks of the content and raw OpenAI calls. Chunks, from which langchain-core
    has made the lists, are dropped.
    """
    fields: dict[str, list[Any]] = {name: [*getattr(message, name)] for name in _LISTS}
    fields["content"] = [*blocks_of(message.content)]
    kwargs = dict(message.additional_kwargs)
    calls: dict[str, list[Place]] = {}
    gone: set[int] = set()
    for old, place in zip(places_of(message), places, strict=True):
        if place is None and old.field == "reasoning":
            kwargs = {key: value for key, value in kwargs.items() if key not in _REASONING_KEYS}
        elif place is None:
            gone.add(old.position)
        elif place.field in fields:
            fields[place.field][place.position] = place.write(fields[place.field][place.position])
            if place.field in _LISTS and isinstance(place.part, ToolCall) and place.part.id:
                calls.setdefault(place.part.id, []).append(place)

    content = _write_calls(fields.pop("content"), calls)
    blocks = [block for index, block in enumerate(content) if index not in gone]
    changes: dict[str, object] = {**fields, "additional_kwargs": kwargs, "content": blocks}
    if isinstance(message.content, str):
        changes["content"] = blocks[0] if blocks else ""
    if isinstance(kwargs.get("tool_calls"), list):
        kwargs["tool_calls"] = _write_calls(kwargs["tool_calls"], calls)
    if isinstance(message, AIMessageChunk):
        changes["tool_call_chunks"] = []
    if signatures := _signatures(message):
        ids = {old: [place.id or old for place in repeated] for old, repeated in calls.items()}
        kwargs[_SIGNATURES] = {new: sign for old, sign in signatures.items() for new in ids.get(old, [old])}
    return message.model_copy(update=changes)


def _write_calls(items: Sequence[object], calls: Mapping[str, Sequence[Place]]) -> list[object]:
    """Return copies of calls with the changes of the calls by their old ids, in order: calls of one message may share an id."""
    waiting = {old: iter(repeated) for old, repeated in calls.items()}
    found = [(item, next(waiting.get(call_id(item) or "", iter(())), None)) for item in items]
    return [item if place is None else place.write(item) for item, place in found]


# -- the call of an answer


def read_call(message: AIMessage, parts: tuple[Part, ...]) -> Message:
    """Return an assistant message of these parts with usage, model and stop reason, from the fields of any integration."""
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    usage, own = usage_of(message), metadata.get("token_usage") or metadata.get("usage")
    if usage is None and own and (read := read_answer({"usage": own})) is not None:
        usage = read.usage

    return Message(
        role="assistant",
        parts=parts,
        usage=usage,
        model=model if isinstance(model, str) else None,
        stop_reason=_stop_reason((finish_reason(message) or "").lower()),
    )


@lru_cache(maxsize=64)  # every answer of a conversation is read, and providers have few words
def _stop_reason(ending: str) -> StopReason | None:
    read = read_answer({"stop_reason": ending})
    return read.stop_reason if read else None


def finish_reason(message: AIMessage) -> str | None:
    """Return the provider's word for how the answer ended; None if the integration does not give it."""
    metadata = message.response_metadata
    details = metadata.get("incomplete_details")  # of OpenAI's Responses
    cut = cast("Mapping[str, object]", details).get("reason") if isinstance(details, Mapping) else None
    named = [metadata.get(key) for key in ("finish_reason", "stop_reason", "done_reason")]
    return next(
        (reason for reason in [*named, cut, metadata.get("status")] if isinstance(reason, str) and reason), None
    )


def usage_of(message: AIMessage) -> Usage | None:
    """Return the provider's usage. `input_tokens` is the whole input in langchain-core, including its cached part.

    A service tier is a prefix of a detail's key (`priority_cache_read`), and if Anthropic counts cache writes by their lifetime
    (`ephemeral_5m_input_tokens`), `cache_creation` is 0.
    """
    counted = message.usage_metadata
    if counted is None:
        return None
    details = cast("Mapping[str, object]", counted.get("input_token_details") or {})
    return Usage(
        input_tokens=counted["input_tokens"],
        output_tokens=counted["output_tokens"],
        cache_read_tokens=_sum(details, "cache_read"),
        cache_write_tokens=_sum(details, "cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
    )


def _sum(details: Mapping[str, object], *endings: str) -> int:
    return sum(count for key, count in details.items() if isinstance(count, int) and key.endswith(endings))


# -- fields that tell a provider of earlier reasoning: OpenAI's ids of items, Google's signatures

_KWARGS: Final = ("__openai_function_call_ids__", _SIGNATURES)
"""Keys of langchain-openai and langchain-google-genai in `additional_kwargs`, by call id."""
_EXTRAS: Final = ("item_id", "signature")
"""The same in the `extras` of a standard block."""
_TEXTS: Final = ("text", "refusal")
_CALLS: Final = ("tool_call", "invalid_tool_call", "server_tool_call")
"""Standard blocks whose id is that of the call. All other types that end in `_call` are items of Responses."""
_ITEM_ID: Final = "msg_"
_RESPONSES: Final = OpenAIResponsesFormat()


def untie(message: AIMessage) -> AIMessage:
    """Return an answer that is valid without its reasoning; the message itself if it has no tie."""
    content = blocks_of(message.content)
    blocks = [_untie_block(block) for block in content]
    changes: dict[str, object] = {} if all(map(is_, blocks, content)) else {"content": blocks}
    if not message.additional_kwargs.keys().isdisjoint(_KWARGS):
        changes["additional_kwargs"] = _without(message.additional_kwargs, *_KWARGS)
    if (message.id or "").startswith(_ITEM_ID):
        changes["id"] = f"lc_{message.id}"  # langchain-openai sends no such id
    return message.model_copy(update=changes) if changes else message


def _untie_block(block: object) -> object:
    if isinstance(block, str):
        return block
    fields = cast(Block, block)
    kind, extras = str(fields.get("type")), fields.get("extras")
    if kind.endswith("_call") and kind not in _CALLS:
        return _RESPONSES.untie(fields)
    gone = ("id", "thought_signature") if kind in _TEXTS else ("thought_signature",)
    if isinstance(extras, Mapping) and not extras.keys().isdisjoint(_EXTRAS):
        return {**_without(fields, *gone), "extras": _without(cast(Block, extras), *_EXTRAS)}
    return block if fields.keys().isdisjoint(gone) else _without(fields, *gone)


def _without(fields: Block, *names: str) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in names}
