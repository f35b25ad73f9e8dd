"""The parts of an assistant's message, and the fields that hold them; some fields repeat others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
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
from compaction_hooks.formats import as_json_text
from compaction_hooks.messages import Part, Thinking, ToolCall

_LISTS: Final = ("tool_calls", "invalid_tool_calls")


class Place(NamedTuple):
    """The place of an assistant's part: a field of the message, and the position in it.

    Attributes:
        text: The new text or arguments to write there; None for no change.
        id: The new id of a tool call; None for no change.
    """

    part: Part
    field: Literal["reasoning", "content", "tool_calls", "invalid_tool_calls", "function_call"]
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
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, Mapping) and not calls:
        fields = cast(Block, legacy)
        found.append(Place(_call({**fields, "id": "", "args": fields.get("arguments")}), "function_call"))
    return found


def _call(call: Mapping[str, object], signatures: Mapping[str, object] = MappingProxyType({})) -> ToolCall:
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
    """Return a copy with the changes of these places; None leaves a part out, which must not be a call of its lists."""
    calls: dict[str, list[Place]] = {}
    fields: dict[str, list[object]] = {name: [*getattr(message, name)] for name in _LISTS}
    fields["content"] = [*blocks_of(message.content)]
    kwargs = dict(message.additional_kwargs)
    gone: set[int] = set()
    for old, place in zip(places_of(message), places, strict=True):
        if place is None and old.field == "reasoning":
            kwargs = {key: value for key, value in kwargs.items() if key not in _REASONING_KEYS}
        elif place is None:
            gone.add(old.position)
        elif place.field == "function_call" and place.text is not None:
            kwargs["function_call"] = {**kwargs["function_call"], "arguments": place.text}
        elif place.field in fields:
            fields[place.field][place.position] = place.write(fields[place.field][place.position])
            if place.field in _LISTS and isinstance(place.part, ToolCall) and place.part.id:
                calls.setdefault(place.part.id, []).append(place)

    fields["content"] = [block for index, block in enumerate(fields["content"]) if index not in gone]
    return message.model_copy(update=_copy_repeats(message, fields, kwargs, calls))


def _copy_repeats(
    message: AIMessage, fields: dict[str, list[object]], kwargs: dict[str, Any], calls: Mapping[str, Sequence[Place]]
) -> Mapping[str, object]:
    """Return a message's fields with its tool calls changed in all their copies: in blocks, raw OpenAI calls, chunks.

    Args:
        calls: The tool calls of the message's lists by their old ids, in order: calls of one message may share an id.
    """
    changes: dict[str, object] = {**fields, "additional_kwargs": kwargs}
    if isinstance(message.content, str):
        changes["content"] = fields["content"][0] if fields["content"] else ""
    else:
        changes["content"] = _write_calls(fields["content"], call_id, calls)
    if isinstance(kwargs.get("tool_calls"), list):
        kwargs["tool_calls"] = _write_calls(kwargs["tool_calls"], _plain_id, calls)
    if signatures := _signatures(message):
        ids = {old: [place.id or old for place in repeated] for old, repeated in calls.items()}
        kwargs[_SIGNATURES] = {new: sign for old, sign in signatures.items() for new in ids.get(old, [old])}
    if isinstance(message, AIMessageChunk):
        changes["tool_call_chunks"] = _write_calls(message.tool_call_chunks, _plain_id, calls)
    return changes


def _write_calls(
    items: Sequence[object], id_of: Callable[[object], str | None], calls: Mapping[str, Sequence[Place]]
) -> list[object]:
    waiting = {old: iter(places) for old, places in calls.items()}
    found = [(item, next(waiting.get(id_of(item) or "", iter(())), None)) for item in items]
    return [item if place is None else place.write(item) for item, place in found]


def _plain_id(call: object) -> str:
    return str(cast(Block, call).get("id") or "")
