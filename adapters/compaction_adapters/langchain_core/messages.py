"""The format of LangChain's messages: `BaseMessage` objects of langchain-core, with blocks of any provider."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_adapters.langchain_core.assistants import Place, places_of, read_call, untie, with_places
from compaction_adapters.langchain_core.blocks import (
    Block,
    blocks_of,
    read_block,
    read_result,
    rewrite_block,
    rewrite_result,
)
from compaction_hooks import Message
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import (
    last_cache_mark,
    marked_content,
    merge_rows,
    merged_content,
)
from compaction_hooks.messages import NativeSummary, Part, PartAddress, Role, ToolResult

SUMMARY_SOURCE: Final = "summarization"
"""The mark of a summary for LangChain, deep agents and their frontends: `additional_kwargs["lc_source"]`."""


class LangChainFormat(PartsFormat[BaseMessage, object]):
    """The format of langchain-core's messages. One message is one piece, except a user's mix of Anthropic tool results and text,
    and an answer with a sealed summary of the provider's own.

    Tool calls are in `tool_calls`; if list content repeats them (`tool_use`, `function_call`, `tool_call` blocks) both are
    rewritten together. Tool calls that could not be parsed (`invalid_tool_calls`) count too. `artifact` is never sent to a model.
    """

    name = "langchain"

    def read(self, message: BaseMessage, /) -> Sequence[Message]:
        """Return one message as neutral ones.

        Raises:
            FormatError: the message is none of langchain-core's, or a `RemoveMessage`.
        """
        if isinstance(message, AIMessage):
            *others, last = [tuple([place.part for place in places]) for places in _pieces(message)]
            answer = read_call(message, last)
            return (*[Message(role="assistant", parts=parts, model=answer.model) for parts in others], answer)

        if isinstance(message, ToolMessage):
            is_error = message.status == "error"
            result = read_result(message.content, message.tool_call_id, message.name or "", is_error=is_error)
            return (Message(role="tool", parts=(result,)),)

        role = _role(message)
        parts = tuple([_read_user_block(block) for block in blocks_of(message.content)])
        is_summary = message.additional_kwargs.get("lc_source") == SUMMARY_SOURCE
        pieces = [
            (is_result, tuple(run)) for is_result, run in groupby(parts, lambda part: isinstance(part, ToolResult))
        ]

        if role != "user" or not any(is_result for is_result, _ in pieces):
            return (Message(role=role, parts=parts, is_summary=is_summary),)
        return [Message(role="tool" if is_result else "user", parts=run) for is_result, run in pieces]

    def summary(self, text: str, /) -> BaseMessage:
        """Return a human message with this text, marked as a summary; equal texts have equal ids."""
        return HumanMessage(text, id=_id_of(text), additional_kwargs={"lc_source": SUMMARY_SOURCE})

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[BaseMessage]:
        """Return Anthropic's block or OpenAI's items: an AI message of each, and human messages of those it retained.

        Equal items have equal ids.
        """
        return [_native_message(item) for item in items]

    def cache_mark(self, message: BaseMessage, /) -> object | None:
        """Return the last `cache_control` in a message's blocks; None without one."""
        return last_cache_mark(message.content)

    def with_cache_mark(self, summary: BaseMessage, mark: object, /) -> BaseMessage:
        """Return a copy of a summary whose text is a block with this `cache_control`."""
        return summary.model_copy(update={"content": marked_content(summary.content, mark)})

    def merge(self, view: list[BaseMessage], /) -> list[BaseMessage]:
        """Return the view with consecutive human messages merged; the same list if there are none."""
        return merge_rows(view, _merge_pair)

    def request(self, text: str, /) -> BaseMessage:
        """Return a human message with this text."""
        return HumanMessage(text)

    def answer(self, message: BaseMessage, call: PartAddress, text: str, /) -> BaseMessage:
        """Return a failed tool message for this tool call.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        part = self.call_at(message, call)
        return ToolMessage(text, tool_call_id=part.id, name=part.name, status="error")

    def untie(self, message: BaseMessage, /) -> BaseMessage:
        """Return an answer without OpenAI's ids of items and Google's thought signatures; the message itself if it has none."""
        return untie(message) if isinstance(message, AIMessage) else message

    def pieces_of(self, message: BaseMessage, /) -> Pieces[object]:
        """Return the places of an assistant's parts, a tool message as its own part, or the blocks of another message's pieces."""
        if isinstance(message, AIMessage):
            return [[*places] for places in _pieces(message)]
        if isinstance(message, ToolMessage):
            return [[message]]
        blocks = iter(blocks_of(message.content))
        return [[next(blocks) for _ in piece.parts] for piece in self.read(message)]

    def take(self, message: BaseMessage, pieces: Sequence[int], /) -> BaseMessage:
        """Return a copy with these pieces only, or the message itself if these are all its pieces."""
        if isinstance(message, AIMessage):
            own = _pieces(message)
            kept = [place for index in pieces for place in own[index]]
            if len(pieces) < len(own) and all(isinstance(place.part, NativeSummary) for place in kept):
                blocks = [blocks_of(message.content)[place.position] for place in kept]
                return AIMessage(content=blocks, id=message.id, response_metadata=message.response_metadata)  # type: ignore[arg-type]
        return super().take(message, pieces)

    def with_pieces(self, message: BaseMessage, pieces: Pieces[object], /) -> BaseMessage:
        """Return a copy that holds these parts."""
        if isinstance(message, AIMessage):
            return with_places(message, [cast("Place | None", place) for piece in pieces for place in piece])
        if isinstance(message, ToolMessage):
            return cast("BaseMessage", pieces[0][0])
        blocks = [block for piece in pieces for block in piece if block is not None]
        is_text = isinstance(message.content, str) and len(blocks) == 1
        return message.model_copy(update={"content": blocks[0] if is_text else blocks})

    def with_text(self, part: object, text: str, /) -> object:
        """Return a part with another text, result text or arguments."""
        if isinstance(part, Place):
            return part._replace(text=text)
        if isinstance(part, BaseMessage):
            return part.model_copy(update={"content": rewrite_result(part.content, text)})
        return rewrite_block(part, text)

    def with_id(self, part: object, call_id: str, /) -> object:
        """Return a tool call or a result with another id."""
        if isinstance(part, Place):
            return part._replace(id=call_id)
        if isinstance(part, ToolMessage):
            return part.model_copy(update={"tool_call_id": call_id})
        return {**cast(Block, part), "tool_use_id": call_id}


FORMAT: Final = LangChainFormat()


def _id_of(text: str) -> str:
    return f"compaction-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _native_message(item: Mapping[str, object]) -> BaseMessage:
    id_ = _id_of(repr(item))
    if item.get("role") == "user":
        return HumanMessage(cast("list[str | dict[str, object]]", item["content"]), id=id_)
    return AIMessage([dict(item)], id=id_)


def _pieces(message: AIMessage) -> list[list[Place]]:
    """Return the places of an answer's parts by piece: a sealed summary of the provider's own is a piece of its own."""
    runs = groupby(places_of(message), lambda place: isinstance(place.part, NativeSummary) and bool(place.part.sealed))
    return [list(places) for _, places in runs] or [[]]


def _merge_pair(first: BaseMessage, second: BaseMessage) -> BaseMessage | None:
    if not (isinstance(first, HumanMessage) and isinstance(second, HumanMessage)):
        return None
    return second.model_copy(update={"content": merged_content(first.content, second.content)})


def without_response_ids(view: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a compacted view whose answers no longer name a response that OpenAI keeps.

    With `ChatOpenAI(use_previous_response_id=True)` only the messages after the newest such id are sent, and the server adds the
    history it keeps: a summary before it would never arrive (`_get_last_messages` in langchain-openai 1.7).
    """
    return [
        message.model_copy(update={"response_metadata": {**message.response_metadata, "id": None}})
        if str(message.response_metadata.get("id")).startswith("resp_")
        else message
        for message in view
    ]


# -- roles

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
}


def _role(message: BaseMessage) -> Role:
    if isinstance(message, RemoveMessage):
        raise FormatError("RemoveMessage is an instruction to a reducer, not a message: pass the list the reducer made")
    if not isinstance(message, BaseMessage):  # pyright: ignore[reportUnnecessaryIsInstance] - a host may pass any object
        raise FormatError(
            f"a LangChain message must be a BaseMessage, not {type(message).__name__}: use convert_to_messages()"
        )
    name = message.role if isinstance(message, ChatMessage) else message.type
    return _ROLES.get(name.removesuffix("MessageChunk").lower(), "other")


def _read_user_block(block: object) -> Part:
    fields: Block = {} if isinstance(block, str) else cast(Block, block)
    if fields.get("type") != "tool_result":
        return read_block(block)
    id_ = str(fields.get("tool_use_id") or "")
    return read_result(fields.get("content") or "", id_, "", is_error=fields.get("is_error") is True)
