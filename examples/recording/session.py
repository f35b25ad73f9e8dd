"""A recorded session as one JSON object: OpenAI chat messages, tool schemas, and probes derived from the messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from recording.probes import add_evidence, derive_probes, tool_schema
from recording.tools import Tool

Chat = dict[str, Any]


def as_chat(message: AgentMessage) -> Chat:
    """Return one message of the agent as an OpenAI chat message."""
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _text(message.content)}
    if isinstance(message, ToolResultMessage):
        chat: Chat = {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "name": message.tool_name,
            "content": _text(message.content),
        }
        return {**chat, "is_error": True} if message.is_error else chat
    if not isinstance(message, AssistantMessage) or message.stop_reason == "error":
        raise TypeError(f"the session ended in something that is not an answer: {message!r}")
    calls = [_call(part) for part in message.content if isinstance(part, ToolCallContent)]
    chat = {"role": "assistant", "content": _text(message.content)}
    return {**chat, "tool_calls": calls} if calls else chat


def record(system: str, messages: Sequence[AgentMessage], tools: Sequence[Tool], probes: Sequence[Chat]) -> Chat:
    """Return the whole session; `probes` are added to those derived from the messages."""
    chat: list[Chat] = [{"role": "system", "content": system}, *map(as_chat, messages)]
    return {
        "id": "spendlog-0.8.0",
        "model": "scripted",
        "domain": "coding-agent",
        "harness": "tinyagent",
        "license": "MIT",
        "messages": chat,
        "tools": [tool_schema(tool) for tool in tools],
        "probes": [*derive_probes(chat), *(add_evidence(probe, chat) for probe in probes)],
    }


def _text(content: Sequence[object]) -> str:
    return "".join(part.text or "" for part in content if isinstance(part, TextContent))


def _call(part: ToolCallContent) -> Chat:
    call = part.model_dump()
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    return {"id": call["id"], "type": "function", "function": function}
