"""Generated sessions for tests, long enough to be compacted, with names that are used again."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.replay import Probe, RecordedSession
from tests.conversations import assistant, call, prose, step, steps, system, tool, user

WINDOW = 8_000
"""The trigger is 6,000 tokens, the target 3,600."""

OLD_FILE = "/project/src/ledger.py"
OLD_ORDER = "TX-48213"


def session(messages: Sequence[Mapping[str, Any]], **fields: Any) -> RecordedSession:
    given: dict[str, Any] = {
        "id": "s1",
        "format_name": "OpenAI chat messages",
        "format": OpenAIChatFormat(),
        "messages": tuple(messages),
        **fields,
    }
    return RecordedSession(**given)


def short_conversation() -> list[Mapping[str, Any]]:
    """Return a conversation of two calls that fit any window."""
    return [system(), user("What is in the folder?"), *step(0, 50), assistant("A parser.")]


def long_conversation(count: int = 20, tokens: int = 600) -> list[Mapping[str, Any]]:
    """Return one request, `count` tool steps and an answer: one call more than steps."""
    return [system(), user("Read all modules of the project."), *steps(count, tokens), assistant("All read.")]


def forgetful_conversation(
    reminder: str = "", between: Sequence[Mapping[str, Any]] = tuple(steps(12, 600))
) -> list[Mapping[str, Any]]:
    """Return a conversation whose first step names an order and a file; later the agent names both again twice.

    Shortly before, the user says `reminder`.
    """
    return [
        system(),
        user("Look after the order."),
        assistant(None, call("first", "look_up", what="the latest order")),
        tool("first", f"{OLD_ORDER}, written to {OLD_FILE}\n{prose(300)}"),
        *between,
        user(f"Which order was it, and where is it? {reminder}"),
        assistant(f"The order was {OLD_ORDER}.", call("again", "open", what=OLD_FILE)),
        tool("again", "as before"),
        assistant(f"Once more: {OLD_ORDER} in {OLD_FILE}."),
    ]


def probe(*answers: str, kind: str = "entity") -> Probe:
    return Probe(kind=kind, question="Which one?", answers=answers)


def write_sessions(path: Path, *conversations: Sequence[Mapping[str, Any]], **fields: Any) -> Path:
    """Write normalized records, one conversation a line, each with `fields`; return the path."""
    lines = [json.dumps({"id": f"s{n}", "messages": list(one), **fields}) for n, one in enumerate(conversations, 1)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
