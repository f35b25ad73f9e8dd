"""Parts of a recorded session that are derived from its messages: tool schemas, and questions with their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from recording.tools import FAKE_ROOT, Tool

CHANGING_TOOLS = ("edit_file", "write_file")

Chat = dict[str, Any]


def tool_schema(tool: Tool) -> Chat:
    """Return a tool as OpenAI's chat completions take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema()}
    return {"type": "function", "function": function}


def derive_probes(chat: Sequence[Chat]) -> list[Chat]:
    """Return the probes that every session has: the first and last request, and the changed files, if there are any."""
    requests = [index for index, message in enumerate(chat) if message["role"] == "user"]
    changed = _find_changed_files(chat)
    probes: list[Chat] = [
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
    ]
    if changed:
        probes.append(
            {
                "kind": "files_modified",
                "question": "Which files were created or edited so far?",
                "answer": list(changed),
                "evidence": sorted({index for indexes in changed.values() for index in indexes}),
            }
        )
    return probes


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


def add_evidence(probe: Mapping[str, Any], chat: Sequence[Chat]) -> Chat:
    """Return `probe` with the indexes of the user's messages that contain its answer."""
    evidence = [
        index
        for index, message in enumerate(chat)
        if message["role"] == "user" and probe["answer"].casefold() in message["content"].casefold()
    ]
    if not evidence:
        raise ValueError(f"no user message says {probe['answer']!r}")
    return {**probe, "evidence": evidence}
