"""The longest recorded sessions, as OpenAI messages that every peer can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.history import Chat
from tests.data import sessions

SOURCES = {"pi_sessions": "pi", "entire_claude_code": "Claude Code", "kimi_claude_code_zh": "Claude Code, Chinese"}
"""Names of the longest sessions in the tables, by file of ../shared/data/sessions."""
SYSTEM_PROMPT = "You are a coding agent. Work on the user's request with the tools you have, and say what you did."
"""System prompt of sessions that were recorded without one."""


def longest_sessions(count: int) -> Iterator[tuple[str, list[Chat]]]:
    """Yield name and messages of the longest session of each of the first `count` sources that are present."""
    for source, name in list(SOURCES.items())[:count]:
        found = [session["messages"] for session in sessions(source)]
        if found:
            longest = max(found, key=lambda messages: len(json.dumps(messages)))
            yield name, [*_system(longest), *map(_plain, longest)]


def _system(messages: list[Chat]) -> list[Chat]:
    return [] if messages[0]["role"] == "system" else [{"role": "system", "content": SYSTEM_PROMPT}]


def _plain(message: Chat) -> Chat:
    """Return a message with text only, and with a JSON object as arguments, since not every peer accepts others."""
    plain: Chat = {"role": message["role"], "content": _text(message.get("content"))}
    if message.get("tool_calls"):
        plain["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if message["role"] == "tool":
        plain["tool_call_id"] = message["tool_call_id"]
    return plain


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def _call(call: Chat) -> Chat:
    arguments = call["function"]["arguments"]
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    function = {
        "name": call["function"]["name"],
        "arguments": arguments if is_object else json.dumps({"input": arguments}),
    }
    return {"id": call["id"], "type": "function", "function": function}
