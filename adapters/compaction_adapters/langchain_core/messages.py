"""LangChain's messages as neutral ones: `BaseMessage` objects of langchain-core, whatever provider wrote their blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType
from typing import Final, Literal, cast

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
    rewritten_block,
    rewritten_result,
)
from compaction_adapters.langchain_core.usage import call_facts
from compaction_hooks import Message
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import (
    as_json_text,
    json_object,
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
            parts = tuple([part for part, _ in _assistant_places(message)])
            return (replace(call_facts(message), parts=parts),)
        if isinstance(message, ToolMessage | FunctionMessage):
            return (Message(role="tool", parts=(_result(message),)),)
        role = _role(message)
        parts = tuple([_spoken(block) for block in blocks_of(message.content)])
        is_summary = message.additional_kwargs.get("lc_source") == SUMMARY_SOURCE
        pieces = [(is_result, tuple(run)) for is_result, run in groupby(parts, _is_result)]
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
        if isinstance(message, AIMessage) and _assistant_places(message)[call[1]][1].field == "function_call":
            return FunctionMessage(content=text, name=part.name)
        return ToolMessage(text, tool_call_id=part.id, name=part.name, status="error")

    def take(self, message: BaseMessage, pieces: Sequence[int], /) -> BaseMessage:
        """Return the message itself, or a copy with the blocks of these pieces."""
        if len(pieces) == len(self.read(message)):
            return message
        own = self.pieces_of(message)
        return self.with_pieces(message, [own[index] for index in pieces])

    def rewrite(self, message: BaseMessage, texts: Mapping[PartAddress, str], /) -> BaseMessage:
        """Return a copy with other texts, result texts or call arguments; the rest are the same objects."""
        if isinstance(message, AIMessage) and texts:
            return _rewritten_assistant(message, {index: text for (_, index), text in texts.items()})
        if isinstance(message, ToolMessage | FunctionMessage) and texts:
            (text,) = texts.values()
            return message.model_copy(update={"content": rewritten_result(message.content, text)})
        return super().rewrite(message, texts)

    def drop(self, message: BaseMessage, parts: Collection[PartAddress], /) -> BaseMessage:
        """Return a copy without these blocks, or without the reasoning that stands beside the content."""
        if isinstance(message, AIMessage):
            return _less_said(message, {index for _, index in parts})
        return super().drop(message, parts)

    def rename(self, message: BaseMessage, ids: Mapping[PartAddress, str], /) -> BaseMessage:
        """Return a copy whose named calls or results have these ids, wherever it repeats its calls. Legacy calls have none."""
        if isinstance(message, AIMessage):
            return _renamed_calls(message, {index: id_ for (_, index), id_ in ids.items()})
        if isinstance(message, ToolMessage):
            return message.model_copy(update={"tool_call_id": ids[0, 0]})
        return message if isinstance(message, FunctionMessage) else super().rename(message, ids)

    def pieces_of(self, message: BaseMessage, /) -> Pieces[object]:
        """Return the blocks of each piece of a message that is no assistant's."""
        blocks = iter(blocks_of(message.content))
        return [[next(blocks) for _ in piece.parts] for piece in self.read(message)]

    def with_pieces(self, message: BaseMessage, pieces: Pieces[object], /) -> BaseMessage:
        """Return a copy that holds these blocks."""
        blocks = [block for piece in pieces for block in piece if block is not None]
        is_text = isinstance(message.content, str) and len(blocks) == 1
        return message.model_copy(update={"content": blocks[0] if is_text else blocks})

    def with_text(self, part: object, text: str, /) -> object:
        """Return a block with another text."""
        return rewritten_block(part, text)

    def with_id(self, part: object, call_id: str, /) -> object:
        """Return a block of Anthropic's that answers the call with this id."""
        return {**cast(Block, part), "tool_use_id": call_id}


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


def _is_result(part: Part) -> bool:
    return isinstance(part, ToolResult)


def _result(message: ToolMessage | FunctionMessage) -> ToolResult:
    if isinstance(message, FunctionMessage):
        return read_result(message.content, "", message.name, is_error=False)
    return read_result(message.content, message.tool_call_id, message.name or "", is_error=message.status == "error")


# -- what the assistant says


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part is written: the field of the message, and the index there."""

    field: Literal["reasoning", "content", "tool_calls", "invalid_tool_calls", "function_call"]
    index: int = 0


def _assistant_places(message: AIMessage) -> list[tuple[Part, _Place]]:
    """Every part in order, with its place: reasoning, content, calls. A block that repeats a call of the list is left out."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    listed = {call["id"] for call in calls if call["id"]}
    signatures = _signatures(message)
    found: list[tuple[Part, _Place]] = [(part, _Place("reasoning")) for part in _reasoning_kwargs(message)]
    for index, block in enumerate(blocks_of(message.content)):
        if (id_ := call_id(block)) is None or id_ not in listed:
            found.append((read_block(block), _Place("content", index)))
    for field in ("tool_calls", "invalid_tool_calls"):
        for index, call in enumerate(getattr(message, field)):
            found.append((_call(call, signatures), _Place(field, index)))
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, Mapping) and not calls:
        fields = cast(Block, legacy)
        found.append((_call({**fields, "id": "", "args": fields.get("arguments")}), _Place("function_call")))
    return found


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


def _reasoning_kwargs(message: AIMessage) -> list[Thinking]:
    """Reasoning beside the content: as DeepSeek, xAI, Groq and Ollama have it, or an item of OpenAI's Responses."""
    text = message.additional_kwargs.get("reasoning_content")
    if isinstance(text, str) and text:
        return [Thinking(text)]
    item = message.additional_kwargs.get("reasoning")
    if isinstance(item, str) and item:
        return [Thinking(item)]
    if isinstance(item, Mapping):
        part = read_block({**cast(Block, item), "type": "reasoning"})
        return [part] if isinstance(part, Thinking) else []
    return []


def _rewritten_assistant(message: AIMessage, texts: Mapping[int, str]) -> AIMessage:
    places = _assistant_places(message)
    changes: dict[str, object] = {}
    new_calls: dict[str, str] = {}
    for index, text in texts.items():
        part, place = places[index]
        held = changes.get(place.field, getattr(message, place.field, None))
        match place.field:
            case "content" if isinstance(held, str):
                changes["content"] = text
            case "content":
                changes["content"] = _replaced(held, place.index, rewritten_block(blocks_of(held)[place.index], text))
            case "tool_calls" | "invalid_tool_calls":
                call = cast("list[Block]", held)[place.index]
                args = json_object(text) if place.field == "tool_calls" else text
                changes[place.field] = _replaced(held, place.index, {**call, "args": args})
                if isinstance(part, ToolCall) and part.id:
                    new_calls[part.id] = text
            case "function_call":
                legacy = {**message.additional_kwargs["function_call"], "arguments": text}
                changes["additional_kwargs"] = {**message.additional_kwargs, "function_call": legacy}
            case "reasoning":  # nobody rewrites reasoning
                pass
    made = message.model_copy(update=changes)
    return _with_repeated_calls(made, new_calls) if new_calls else made


def _replaced(items: object, index: int, item: object) -> list[object]:
    made = list(cast("list[object]", items))
    made[index] = item
    return made


def _with_repeated_calls(message: AIMessage, texts: Mapping[str, str]) -> AIMessage:
    """Write new arguments (by call id) wherever else a message repeats its calls: blocks, raw OpenAI calls, chunks."""
    changes: dict[str, object] = {}
    if isinstance(message.content, list):
        changes["content"] = [
            block if (text := texts.get(call_id(block) or "")) is None else rewritten_block(block, text)
            for block in blocks_of(message.content)
        ]
    raw = message.additional_kwargs.get("tool_calls")
    if isinstance(raw, list):
        calls = [_raw_call(cast(Block, call), texts) for call in cast("list[object]", raw)]
        changes["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": calls}
    if isinstance(message, AIMessageChunk):
        changes["tool_call_chunks"] = [
            {**chunk, "args": texts.get(chunk["id"] or "", chunk["args"])} for chunk in message.tool_call_chunks
        ]
    return message.model_copy(update=changes)


_REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking_blocks", "reasoning_details")
"""Where reasoning is beside the content; the last two repeat it with signatures (LiteLLM, OpenRouter)."""


def _less_said(message: AIMessage, gone: Collection[int]) -> AIMessage:
    """A copy without these parts, none of which is a call of the message's lists."""
    places = [place for index, (_, place) in enumerate(_assistant_places(message)) if index in gone]
    changes: dict[str, object] = {}
    if left_out := {place.index for place in places if place.field == "content"}:
        blocks = blocks_of(message.content)
        left = [block for index, block in enumerate(blocks) if index not in left_out]
        changes["content"] = left if isinstance(message.content, list) else ""
    if any(place.field == "reasoning" for place in places):
        others = message.additional_kwargs.items()
        changes["additional_kwargs"] = {key: value for key, value in others if key not in _REASONING_KEYS}
    return message.model_copy(update=changes)


def _renamed_calls(message: AIMessage, ids: Mapping[int, str]) -> AIMessage:
    changes: dict[str, object] = {}
    listed: dict[str, list[str]] = {}
    for index, (part, place) in enumerate(_assistant_places(message)):
        if not isinstance(part, ToolCall) or place.field == "function_call":
            continue
        if place.field != "content":
            listed.setdefault(part.id, []).append(ids.get(index, part.id))
        if index in ids:
            held = changes.get(place.field, getattr(message, place.field))
            changes[place.field] = _replaced(held, place.index, _with_id(blocks_of(held)[place.index], ids[index]))
    return _with_repeated_ids(message.model_copy(update=changes), listed)


def _with_repeated_ids(message: AIMessage, ids: Mapping[str, Sequence[str]]) -> AIMessage:
    """Write new ids wherever else a message repeats its calls: blocks, raw OpenAI calls, chunks.

    Args:
        ids: By the old id, the new ones of the calls that had it, in order: calls of one message may share an id.
    """
    changes: dict[str, object] = {}
    if isinstance(message.content, list):
        changes["content"] = _each_with_id(blocks_of(message.content), call_id, ids)
    kwargs = dict(message.additional_kwargs)
    if isinstance(kwargs.get("tool_calls"), list):
        kwargs["tool_calls"] = _each_with_id(cast("list[object]", kwargs["tool_calls"]), _plain_id, ids)
    if signatures := _signatures(message):
        kwargs[_SIGNATURES] = {new: sign for old, sign in signatures.items() for new in ids.get(old, [old])}
    if kwargs != message.additional_kwargs:
        changes["additional_kwargs"] = kwargs
    if isinstance(message, AIMessageChunk):
        changes["tool_call_chunks"] = _each_with_id(message.tool_call_chunks, _plain_id, ids)
    return message.model_copy(update=changes)


def _each_with_id(
    items: Sequence[object], id_of: Callable[[object], str | None], ids: Mapping[str, Sequence[str]]
) -> list[object]:
    waiting = {old: iter(new) for old, new in ids.items()}
    return [
        item if (id_ := next(waiting.get(old := id_of(item) or "", iter(())), old)) == old else _with_id(item, id_)
        for item in items
    ]


def _plain_id(call: object) -> str:
    return str(cast(Block, call).get("id") or "")


def _with_id(call: object, id_: str) -> Block:
    fields = cast(Block, call)
    return {**fields, "call_id" if "call_id" in fields else "id": id_}


def _raw_call(call: Block, texts: Mapping[str, str]) -> Block:
    id_, function = call.get("id"), call.get("function")
    if not isinstance(id_, str) or id_ not in texts or not isinstance(function, Mapping):
        return call
    return {**call, "function": {**cast(Block, function), "arguments": texts[id_]}}
