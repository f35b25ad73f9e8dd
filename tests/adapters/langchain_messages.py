"""OpenAI chat dicts as LangChain messages, for tests that compare the two."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

Chat = Mapping[str, Any]


def as_langchain(messages: Sequence[Chat]) -> list[BaseMessage]:
    """The same conversation in LangChain's messages, as its integrations make them of what a provider sends."""
    return [_message(message) for message in messages]


def _message(message: Chat) -> BaseMessage:
    content = message.get("content") or ""
    match message["role"]:
        case "system":
            return SystemMessage(content)
        case "user":
            marked = {"lc_source": "summarization"} if message.get("is_compact_summary") else {}
            return HumanMessage(content, additional_kwargs=marked)
        case "tool":
            status: Any = "error" if message.get("is_error") else "success"
            return ToolMessage(content, tool_call_id=message["tool_call_id"], name=message.get("name"), status=status)
        case "assistant":
            return _assistant(message, content)
        case role:
            raise ValueError(role)


def _assistant(message: Chat, content: Any) -> AIMessage:
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for call in message.get("tool_calls") or ():
        name, text = call["function"]["name"], call["function"]["arguments"]
        try:
            arguments = json.loads(text or "{}")
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            valid.append(ToolCall(name=name, args=arguments, id=call["id"], type="tool_call"))
        else:
            invalid.append(
                InvalidToolCall(name=name, args=text, id=call["id"], error="no object", type="invalid_tool_call")
            )
    return AIMessage(content, tool_calls=valid, invalid_tool_calls=invalid)
