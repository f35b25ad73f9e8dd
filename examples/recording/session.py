"""A recorded session as one JSON object: OpenAI chat messages, tool schemas, and probes derived from the messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from recording.tools import FAKE_ROOT, Tool

CHANGING_TOOLS = ("edit_file", "write_file")

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
        "tools": [_tool(tool) for tool in tools],
        "probes": [*_derive_probes(chat), *(_add_evidence(probe, chat) for probe in probes)],
    }


def _text(content: Sequence[object]) -> str:
    return "".join(part.text or "" for part in content if isinstance(part, TextContent))


def _call(part: ToolCallContent) -> Chat:
    call = part.model_dump()
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    return {"id": call["id"], "type": "function", "function": function}


def _tool(tool: Tool) -> Chat:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema()}
    return {"type": "function", "function": function}


def _derive_probes(chat: Sequence[Chat]) -> list[Chat]:
    requests = [index for index, message in enumerate(chat) if message["role"] == "user"]
    changed = _find_changed_files(chat)
    return [
        {
            "kind": "first_request",
            "question": "What did the user ask for first?",
            "answer": chat[requests[0]]["content"],
            "evidence": [requests[0]],
        },
        {
            "kind": "last_request",
            "question": "What is the user's most recent request?",
            "answer": chat[requests[-1]]["content"],
            "evidence": [requests[-1]],
        },
        {
            "kind": "files_modified",
            "question": "Which files were created or edited so far?",
            "answer": list(changed),
            "evidence": sorted({index for indexes in changed.values() for index in indexes}),
        },
    ]


def _find_changed_files(chat: Sequence[Chat]) -> dict[str, list[int]]:
    """Return the files edited or written with success, in the order of their first change, and the indexes of these messages."""
    failed = {message["tool_call_id"] for message in chat if message.get("is_error")}
    changed: dict[str, list[int]] = {}
    for index, message in enumerate(chat):
        for call in message.get("tool_calls", ()):
            if call["function"]["name"] in CHANGING_TOOLS and call["id"] not in failed:
                path = json.loads(call["function"]["arguments"])["path"]
                changed.setdefault(f"{FAKE_ROOT}/{path}", []).append(index)
    return changed


def _add_evidence(probe: Mapping[str, Any], chat: Sequence[Chat]) -> Chat:
    """Return `probe` with the indexes of the user's messages that contain its answer."""
    evidence = [
        index
        for index, message in enumerate(chat)
        if message["role"] == "user" and probe["answer"].casefold() in message["content"].casefold()
    ]
    if not evidence:
        raise ValueError(f"no user message says {probe['answer']!r}")
    return {**probe, "evidence": evidence}
