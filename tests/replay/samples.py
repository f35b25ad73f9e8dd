"""Generated session files in the forms of agents."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import Fields, RecordedSession

Json = dict[str, Any]


def write(path: Path, *objects: object) -> Path:
    """Write objects as JSON Lines and texts unchanged; return the path."""
    path.write_text(
        "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in objects), encoding="utf-8"
    )
    return path


def read_one(path: Path) -> RecordedSession:
    (session,) = read_sessions(path)
    return session


def blocks(message: Fields) -> list[Json]:
    content = message["content"]
    return cast(list[Json], content) if isinstance(content, list) else []


def shape(session: RecordedSession) -> list[str]:
    """Return the speaker and block types of each message: "user", "assistant:text,tool_use"."""
    said: list[str] = []
    for message in session.messages:
        kinds = ",".join(str(block["type"]) for block in blocks(message))
        said.append(f"{message['role']}:{kinds}" if kinds else str(message["role"]))
    return said


def assert_calls_are_answered(messages: Iterable[Mapping[str, Any]]) -> None:
    """Assert that every tool_use has its result in the next message, and that there is no other result."""
    waiting: list[str] = []
    for message in messages:
        results = [block["tool_use_id"] for block in blocks(message) if block.get("type") == "tool_result"]
        assert results == waiting
        waiting = [block["id"] for block in blocks(message) if block.get("type") == "tool_use"]
    assert not waiting
