"""LangChain's messages as neutral ones: `BaseMessage` objects of langchain-core, whatever provider wrote their blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_adapters.langchain_core.blocks import (
    Block,
    blocks_of,
    call_id,
    read_block,
    read_result,
    renamed_call,
    rewritten_block,
    rewritten_result,
)
from compaction_adapters.langchain_core.usage import call_facts
from compaction_hooks import Message
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import (
    as_json_text,
    last_cache_mark,
    marked_content,
    merge_rows,
    merged_content,
)
from compaction_hooks.messages import Part, PartAddress, Role, Thinking, ToolCall, ToolResult

SUMMARY_SOURCE: Final = "summarization"
"""What LangChain, deep agents and their frontends know a summary by: `additional_kwargs["lc_source"]`."""


class LangChainFormat(PartsFormat[BaseMessage, object]):
    """langchain-core's messages. One message is one piece, but a human message that mixes Anthropic tool results with words.

    Calls stand in `tool_calls`; where list content repeats them (`tool_use`, `function_call`, `tool_call` blocks) both are
    rewritten together. Calls that could not be parsed (`invalid_tool_calls`) are calls too. `artifact` is never sent to a model.
    """

    name = "langchain"

    def read(self, message: BaseMessage, /) -> Sequence[Message]:
        """Return the neutral reading of one message.

        Raises:
            FormatError: it is no message of langchain-core, or one that only tells a reducer to remove another.
        """
        if isinstance(message, AIMessage):
            parts = tuple([place.part for place in _places(message)])
            return (replace(call_facts(message), parts=parts),)
        if isinstance(message, ToolMessage | FunctionMessage):
            return (Message(role="tool", parts=(_result(message),)),)
        role = _role(message)
        parts = tuple([_spoken(block) for block in blocks_of(message.content)])
        is_summary = message.additional_kwargs.get("lc_source") == SUMMARY_SOURCE
        pieces = [
            (is_result, tuple(run)) for is_result, run in groupby(parts, lambda part: isinstance(part, ToolResult))
        ]
        if role != "user" or not any(is_result for is_result, _ in pieces):
            return (Message(role=role, parts=parts, is_summary=is_summary),)
        return [Message(role="tool" if is_result else "user", parts=run) for is_result, run in pieces]

    def summary(self, text: str, /) -> BaseMessage:
        """Return a human message with this text, marked as a summary; equal texts have equal ids."""
        return HumanMessage(
            text,
            id=f"compaction-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}",
            additional_kwargs={"lc_source": SUMMARY_SOURCE},
        )

    def cache_mark(self, message: BaseMessage, /) -> object | None:
        """Return the last `cache_control` in a message's blocks; None without one."""
        return last_cache_mark(message.content)

    def with_cache_mark(self, summary: BaseMessage, mark: object, /) -> BaseMessage:
        """Return a copy of a summary whose text is a block with this `cache_control`."""
        return summary.model_copy(update={"content": marked_content(summary.content, mark)})

    def merge(self, view: list[BaseMessage], /) -> list[BaseMessage]:
        """Return the view with human messages in a row as one; the very list if there are none."""
        return merge_rows(view, _merge_pair)

    def request(self, text: str, /) -> BaseMessage:
        """Return a human message with this text."""
        return HumanMessage(text)

    def answer(self, message: BaseMessage, call: PartAddress, text: str, /) -> BaseMessage:
        """Return a failed tool message for this call; a function message where the call is of OpenAI's legacy kind.

        Raises:
            ConfigurationError: the address names no call.
        """
        part = self.call_at(message, call)
        if isinstance(message, AIMessage) and _places(message)[call[1]].field == "function_call":
            return FunctionMessage(content=text, name=part.name)
        return ToolMessage(text, tool_call_id=part.id, name=part.name, status="error")

    def take(self, message: BaseMessage, pieces: Sequence[int], /) -> BaseMessage:
        """Return the message itself, or a copy with the blocks of these pieces."""
        if len(pieces) == len(self.read(message)):
            return message
        own = self.pieces_of(message)
        return self.with_pieces(message, [own[index] for index in pieces])

    def pieces_of(self, message: BaseMessage, /) -> Pieces[object]:
        """Return the places of an assistant's parts, a result as its own message, and the blocks of any other's pieces."""
        if isinstance(message, AIMessage):
            return [[*_places(message)]]
        if isinstance(message, ToolMessage | FunctionMessage):
            return [[message]]
        blocks = iter(blocks_of(message.content))
        return [[next(blocks) for _ in piece.parts] for piece in self.read(message)]

    def with_pieces(self, message: BaseMessage, pieces: Pieces[object], /) -> BaseMessage:
        """Return a copy that holds these parts."""
        if isinstance(message, AIMessage):
            return _rewritten(message, cast("list[_Place | None]", pieces[0]))
        if isinstance(message, ToolMessage | FunctionMessage):
            return cast("BaseMessage", pieces[0][0])
        blocks = [block for piece in pieces for block in piece if block is not None]
        is_text = isinstance(message.content, str) and len(blocks) == 1
        return message.model_copy(update={"content": blocks[0] if is_text else blocks})

    def with_text(self, part: object, text: str, /) -> object:
        """Return a part with another text, result text or arguments."""
        if isinstance(part, _Place):
            return replace(part, text=text)
        if isinstance(part, BaseMessage):
            return part.model_copy(update={"content": rewritten_result(part.content, text)})
        return rewritten_block(part, text)

    def with_id(self, part: object, call_id: str, /) -> object:
        """Return a call or a result with another id; OpenAI's legacy functions have none."""
        if isinstance(part, _Place):
            return replace(part, id=call_id)
        if isinstance(part, ToolMessage):
            return part.model_copy(update={"tool_call_id": call_id})
        return part if isinstance(part, FunctionMessage) else {**cast(Block, part), "tool_use_id": call_id}


FORMAT: Final = LangChainFormat()


def _merge_pair(first: BaseMessage, second: BaseMessage) -> BaseMessage | None:
    if not (isinstance(first, HumanMessage) and isinstance(second, HumanMessage)):
        return None
    return second.model_copy(update={"content": merged_content(first.content, second.content)})


def without_response_ids(view: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a compacted view whose answers no longer name a response that OpenAI keeps.

    With `ChatOpenAI(use_previous_response_id=True)` only what follows the newest such id is sent, and the server adds the
    history it holds: a summary before it would never arrive (`_get_last_messages` in langchain-openai 1.7).
    """
    return [_without_response_id(message) for message in view]


def _without_response_id(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, AIMessage) or not str(message.response_metadata.get("id")).startswith("resp_"):
        return message
    kept = {key: value for key, value in message.response_metadata.items() if key != "id"}
    return message.model_copy(update={"response_metadata": kept})


# -- who speaks

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
}


def _role(message: BaseMessage) -> Role:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, ChatMessage):
        return _ROLES.get(message.role, "other")
    if isinstance(message, RemoveMessage):
        raise FormatError("RemoveMessage is an instruction to a reducer, not a message: pass the list the reducer made")
    if not isinstance(message, BaseMessage):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever a host put there
        raise FormatError(
            f"a LangChain message must be a BaseMessage, not {type(message).__name__}: use convert_to_messages()"
        )
    return "other"


def _spoken(block: object) -> Part:
    fields: Block = {} if isinstance(block, str) else cast(Block, block)
    if fields.get("type") != "tool_result":
        return read_block(block)
    id_ = str(fields.get("tool_use_id") or "")
    return read_result(fields.get("content") or "", id_, "", is_error=fields.get("is_error") is True)


def _result(message: ToolMessage | FunctionMessage) -> ToolResult:
    if isinstance(message, FunctionMessage):
        return read_result(message.content, "", message.name, is_error=False)
    return read_result(message.content, message.tool_call_id, message.name or "", is_error=message.status == "error")


# -- what the assistant says


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an assistant's part is written: the field of the message, and the index there.

    Attributes:
        text: The text or the arguments that are written there instead.
        id: The id that a call is given instead.
    """

    part: Part
    field: Literal["reasoning", "content", "tool_calls", "invalid_tool_calls", "function_call"]
    index: int = 0
    text: str | None = None
    id: str | None = None

    def write(self, value: object) -> object:
        """Return this part's block or call, in any of the forms that a message repeats it in, as it is to be."""
        if self.text is not None:
            value = rewritten_block(value, self.text)
        return value if self.id is None else renamed_call(cast(Block, value), self.id)


def _places(message: AIMessage) -> list[_Place]:
    """Return every part in order: reasoning, content, calls. A block that repeats a call of the list is left out."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    listed = {call["id"] for call in calls if call["id"]}
    signatures = _signatures(message)
    found = [_Place(part, "reasoning") for part in _reasoning_kwargs(message)]
    for index, block in enumerate(blocks_of(message.content)):
        if (id_ := call_id(block)) is None or id_ not in listed:
            found.append(_Place(read_block(block), "content", index))
    for field in _LISTS:
        for index, call in enumerate(getattr(message, field)):
            found.append(_Place(_call(call, signatures), field, index))
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, Mapping) and not calls:
        fields = cast(Block, legacy)
        found.append(_Place(_call({**fields, "id": "", "args": fields.get("arguments")}), "function_call"))
    return found


_LISTS: Final = ("tool_calls", "invalid_tool_calls")


def _call(call: Mapping[str, object], signatures: Mapping[str, object] = MappingProxyType({})) -> ToolCall:
    id_ = str(call.get("id") or "")
    return ToolCall(
        id_, str(call.get("name") or ""), as_json_text(call.get("args")), len(str(signatures.get(id_) or ""))
    )


_SIGNATURES: Final = "__gemini_function_call_thought_signatures__"
"""Where langchain-google-genai (4.4) keeps the thought signatures of calls, by call id."""


def _signatures(message: AIMessage) -> Mapping[str, object]:
    found = message.additional_kwargs.get(_SIGNATURES)
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _reasoning_kwargs(message: AIMessage) -> list[Part]:
    """Read the reasoning next to the content: as DeepSeek, xAI, Groq and Ollama have it, or an item of OpenAI's Responses."""
    kwargs = message.additional_kwargs
    found = kwargs.get("reasoning_content") or kwargs.get("reasoning")
    if isinstance(found, Mapping):
        return [read_block({**cast(Block, found), "type": "reasoning"})]
    return [Thinking(found)] if isinstance(found, str) and found else []


_REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking_blocks", "reasoning_details")
"""Where reasoning is beside the content; the last two repeat it with signatures (LiteLLM, OpenRouter)."""


def _rewritten(message: AIMessage, places: Sequence[_Place | None]) -> AIMessage:
    """Return a copy with its parts as these places have them, None for one that is left out, which is no call of its lists."""
    calls: dict[str, list[_Place]] = {}
    fields: dict[str, list[object]] = {name: [*getattr(message, name)] for name in _LISTS}
    fields["content"] = [*blocks_of(message.content)]
    kwargs = dict(message.additional_kwargs)
    gone: set[int] = set()
    for old, place in zip(_places(message), places, strict=True):
        if place is None and old.field == "reasoning":
            kwargs = {key: value for key, value in kwargs.items() if key not in _REASONING_KEYS}
        elif place is None:
            gone.add(old.index)
        elif place.field == "function_call" and place.text is not None:
            kwargs["function_call"] = {**kwargs["function_call"], "arguments": place.text}
        elif place.field in fields:
            fields[place.field][place.index] = place.write(fields[place.field][place.index])
            if place.field in _LISTS and isinstance(place.part, ToolCall) and place.part.id:
                calls.setdefault(place.part.id, []).append(place)

    fields["content"] = [block for index, block in enumerate(fields["content"]) if index not in gone]
    return message.model_copy(update=_with_repeated(message, fields, kwargs, calls))


def _with_repeated(
    message: AIMessage, fields: dict[str, list[object]], kwargs: dict[str, Any], calls: Mapping[str, Sequence[_Place]]
) -> Mapping[str, object]:
    """Return a message's fields with its calls the same wherever it repeats them: in blocks, raw OpenAI calls, chunks.

    Args:
        calls: By its old id, each call of the message's lists, in order: calls of one message may share an id.
    """
    changes: dict[str, object] = {**fields, "additional_kwargs": kwargs}
    if isinstance(message.content, str):
        changes["content"] = fields["content"][0] if fields["content"] else ""
    else:
        changes["content"] = _repeated(fields["content"], call_id, calls)
    if isinstance(kwargs.get("tool_calls"), list):
        kwargs["tool_calls"] = _repeated(kwargs["tool_calls"], _plain_id, calls)
    if signatures := _signatures(message):
        ids = {old: [place.id or old for place in repeated] for old, repeated in calls.items()}
        kwargs[_SIGNATURES] = {new: sign for old, sign in signatures.items() for new in ids.get(old, [old])}
    if isinstance(message, AIMessageChunk):
        changes["tool_call_chunks"] = _repeated(message.tool_call_chunks, _plain_id, calls)
    return changes


def _repeated(
    items: Sequence[object], id_of: Callable[[object], str | None], calls: Mapping[str, Sequence[_Place]]
) -> list[object]:
    waiting = {old: iter(places) for old, places in calls.items()}
    found = [(item, next(waiting.get(id_of(item) or "", iter(())), None)) for item in items]
    return [item if place is None else place.write(item) for item, place in found]


def _plain_id(call: object) -> str:
    return str(cast(Block, call).get("id") or "")
