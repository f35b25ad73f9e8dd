"""The difference between a list and its view, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any, cast

from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.messages import M, Media, Message, MessageFormat, Opaque, Text, ToolCall, ToolResult
from compaction_hooks.view.markers import quote_call

LINE_CHARS = 100
"""The most characters of a part in its line."""


def diff(messages: Sequence[M], view: Sequence[M], *, format: MessageFormat[Any] | None = None) -> str:
    """Return the difference between a list and its view as unified diff, with one line for each part of a message.

    Neither is changed. A line shows the beginning of its part, and its size in characters.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.

    Raises:
        FormatError: a message cannot be read.
    """
    chosen = cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat())  # it reads these messages
    before, after = (
        [line for message in listed for piece in chosen.read(message) for line in _lines(piece)]
        for listed in (messages, view)
    )
    return "\n".join(unified_diff(before, after, "messages", "view", lineterm="", n=1))


def _lines(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) | ToolResult(text=text) | Opaque(text=text):
                yield f"{message.role}: {_beginning(text)}"
            case ToolCall():
                yield f"{message.role} calls {quote_call(part)} ({len(part.arguments):,} characters)"
            case Media():
                yield f"{message.role}: [{part.media_type}]"
            case _:
                pass


def _beginning(text: str) -> str:
    start = " ".join(text[: 2 * LINE_CHARS].split())[:LINE_CHARS]
    return start if len(text) <= len(start) else f"{start}… ({len(text):,} characters)"
