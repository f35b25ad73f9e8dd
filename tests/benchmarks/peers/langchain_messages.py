"""Conversion of histories to LangChain's messages, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from tests.benchmarks.peers.peer import SUMMARY, Chat, Conversation, Peer, Reported

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def convert(history: Sequence[Chat]) -> list[BaseMessage]:
    """Return a history in LangChain's messages, each with an id."""
    return [_message(chat, str(number)) for number, chat in enumerate(history)]


def is_answer(message: BaseMessage) -> bool:
    """Whether a message is the model's."""
    return isinstance(message, AIMessage)


def chats(message: BaseMessage) -> Sequence[Chat]:
    """Return a message in OpenAI's form."""
    chat: Chat = {"role": _ROLES[message.type], "content": message.text}
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    return (chat,)


def report(message: BaseMessage, reported: Reported | None) -> None:
    """Write usage into an answer, as LangChain's chat models do."""
    if isinstance(message, AIMessage):
        message.response_metadata = {"model_provider": "openai"} if reported else {}
        message.usage_metadata = _usage(reported) if reported else None


class LangChainConversation(Conversation[BaseMessage]):
    """A conversation whose answers have usage, with the system prompt outside of the list, as in agents."""

    def append(self, message: BaseMessage, reported: Reported | None) -> None:
        report(message, reported)
        (self.head if isinstance(message, SystemMessage) else self.messages).append(message)


def chat_model(window: int) -> Any:
    """Return a model without answers, for peers that read a model's window and provider."""
    return _OpenAI(responses=[""], profile={"max_input_tokens": window})


async def summarize(_: object) -> str:
    """Return the same summary for every request."""
    return SUMMARY


class _OpenAI(FakeListChatModel):
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai"}


def _usage(reported: Reported) -> UsageMetadata:
    total = reported.input_tokens + reported.output_tokens
    return UsageMetadata(input_tokens=reported.input_tokens, output_tokens=reported.output_tokens, total_tokens=total)


def _message(chat: Chat, number: str) -> BaseMessage:
    content = chat["content"] or ""
    match chat["role"]:
        case "system":
            return SystemMessage(content, id=number)
        case "user":
            return HumanMessage(content, id=number)
        case "tool":
            return ToolMessage(content, tool_call_id=chat["tool_call_id"], id=number)
        case _:
            return AIMessage(content, tool_calls=[_call(call) for call in chat.get("tool_calls") or ()], id=number)


def _call(call: Chat) -> Any:
    function = call["function"]
    return {"type": "tool_call", "id": call["id"], "name": function["name"], "args": json.loads(function["arguments"])}


langchain_peer = partial(Peer[BaseMessage], convert=convert, is_answer=is_answer, chats=chats)
"""A peer that takes LangChain's messages."""
