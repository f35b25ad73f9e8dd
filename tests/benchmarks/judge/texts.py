"""Messages as pairs of role and text, one rendering for all contexts, and a Moment: a compaction of a recorded session.

The standard library only: another version of the library replays sessions with it, in an environment of its own.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NotRequired, TypeAlias, TypedDict

Chat: TypeAlias = Mapping[str, Any]
Turn: TypeAlias = list[str]
"""A role and a text, as JSON has them."""

SUMMARY = re.compile(r"\A(.*?<summary>\n)(.*?)(\n</summary>.*)\Z", re.DOTALL)
"""The message with a summary: the words in front of it, the summary, the rest with the lists of files."""
CALL = re.compile(r"<tool_call>\n(.*?)(?:\n</tool_call>|\Z)", re.DOTALL)
"""A tool call in a rendered message; one that is cut has no end."""
SCORED_CHARS, RESULT_CHARS = 1_200, 800
"""Characters of an agent's message that are scored, and of a result between two of them that are shown."""


class Moment(TypedDict):
    """A compaction of a recorded session, and what the agent did next; plain JSON.

    Attributes:
        case: Names the moment: session, window, keep and call.
        source: The file of the session, without its endings.
        window, keep: The window, and `keep_recent_tokens` if it is not the default.
        at: Index of the message that answers the call of the compaction.
        nth: The number of the compaction in its session, from 1.
        steps: The messages of the agent in `next`: 3 if the session has so many.
        head: The messages of the view in front of the summary.
        covered: The messages that the compaction covers.
        pins, pinned: Covered messages that the view keeps, and their places in `covered`.
        recent: The newer messages as the view has them.
        next: The agent's next messages, with the results between them.
        summary: The message in place of the covered ones.
        sizes: Tokens of head, covered, pins, recent, next and summary, by o200k_base.
        recorded, completed: At a compaction that the recorded agent made itself: its own summary, and the same completed by the
            library.
    """

    case: str
    session: str
    source: str
    window: int
    keep: int | None
    at: int
    nth: int
    steps: int
    head: list[Turn]
    covered: list[Turn]
    pins: list[Turn]
    pinned: list[int]
    recent: list[Turn]
    next: list[Turn]
    summary: str
    sizes: dict[str, int]
    recorded: NotRequired[str]
    completed: NotRequired[str]


def content(message: Chat) -> str:
    """Return the text of a chat message; an image is named."""
    parts = message.get("content") or ""
    if isinstance(parts, str):
        return parts
    texts = (part.get("text", "") if part.get("type") in ("text", "input_text") else "[image]" for part in parts)
    return "\n".join(texts)


def render(message: Chat) -> Turn:
    """Return a message of OpenAI's chat format as role and text, with its tool calls as JSON in the text."""
    parts = [content(message)] if content(message) else []
    for function in (call["function"] for call in message.get("tool_calls") or ()):
        arguments = function.get("arguments")
        with suppress(TypeError, ValueError):  # a model may write arguments that are no JSON: they stay a string
            arguments = json.loads(arguments)
        call = json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)
        parts.append(f"<tool_call>\n{call}\n</tool_call>")
    return [message["role"], "\n".join(parts)]


def shown(role: str, text: str) -> str:
    """Return the text of a message as the judge reads it."""
    return f"<tool_response>\n{text}\n</tool_response>" if role == "tool" else text


def joined(turns: Iterable[Turn]) -> str:
    return "\n".join(text for _, text in turns)


def shorten(text: str, most: int) -> str:
    """Return a text of at most so many characters, without its middle if it is longer."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}\n[...]\n{text[-most // 3 :]}"


def part_of_next(role: str, text: str) -> str:
    """Return as much of one of the next messages as the judge reads."""
    return text[:SCORED_CHARS] if role == "assistant" else shorten(text, RESULT_CHARS)
