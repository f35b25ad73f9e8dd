"""The actions in a stretch of conversation, in numbers and names: for events, logs and later readers of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from compaction_hooks.files.operations import CallMade
from compaction_hooks.messages import Message

MAX_LISTED = 50
"""The most files, commands and hidden results each that a digest names, the newest: it is kept with the record."""
MAX_TEXT_CHARS = 200
"""The most that is kept of one command or replacement text, in characters."""


def digest(
    messages: Iterable[Message], calls: Sequence[CallMade], modified: Sequence[str], hidden: Sequence[tuple[str, str]]
) -> dict[str, object]:
    """Return the actions in these messages as plain JSON; its lists hold the newest `MAX_LISTED`, oldest first.

    Args:
        calls: The calls that the messages made.
        modified: Paths of the files that the calls modified.
        hidden: Of each result that the view shows smaller, the tool and the text in its place.

    Returns:
        The number of `messages` by role; of each of the `tools`, by first use, the calls and the errors; `files_written`;
        `commands` and whether each succeeded, None if it was never answered; `hidden` results.
    """
    uses = Counter(made.call.name for made in calls)
    errors = Counter(made.call.name for made in calls if made.has_failed)
    commands = [
        {"command": _shorten(made.command), "succeeded": None if made.result is None else not made.has_failed}
        for made in calls
        if made.command is not None
    ]
    return {
        "messages": dict(Counter(message.role for message in messages)),
        "tools": [{"tool": tool, "calls": count, "errors": errors[tool]} for tool, count in uses.items()],
        "files_written": [*modified[-MAX_LISTED:]],
        "commands": commands[-MAX_LISTED:],
        "hidden": [{"tool": tool, "replacement": _shorten(text)} for tool, text in hidden[-MAX_LISTED:]],
    }


def _shorten(text: str) -> str:
    text = " ".join(text[: 2 * MAX_TEXT_CHARS].split())
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 3] + "..."
