"""One replay with its recorded session, and the messages in it as they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.replay.bills import read_blocks
from compaction_hooks.replay.page.shape import MessageData, PartData
from compaction_hooks.replay.page.texts import visible
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import CompactionDetails, Replay, ReplayedCompaction

Done: TypeAlias = tuple[str, RecordedSession, Replay]
"""A file, a session in it, and its replay with details."""


class Source:
    """One replay, its messages as they are read, and the rule for its texts."""

    def __init__(self, number: int, file: str, session: RecordedSession, replay: Replay, has_text: bool) -> None:
        self.session, self.replay, self.has_text = session, replay, has_text
        self.name = visible(session.id) if has_text else f"session {number}"
        self.file = self.text(file)
        self.pieces = [session.format.read(message) for message in session.messages]
        self.systems = {n for n, pieces in enumerate(self.pieces) if all(piece.role == "system" for piece in pieces)}
        self.index_of = {id(message): index for index, message in enumerate(session.messages)}

    def text(self, text: str) -> str:
        """Return a text of the conversation as it is shown: nothing of it in a report without text."""
        return visible(text) if self.has_text else ""

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Return several texts as they are shown; none in a report without text."""
        return [visible(text) for text in texts] if self.has_text else []


def details_of(compaction: ReplayedCompaction) -> CompactionDetails:
    """Return the details of a compaction.

    Raises:
        ValueError: the replay was not asked for details.
    """
    if compaction.details is None:
        raise ValueError("a report needs replays with details: replay(..., details=True)")
    return compaction.details


def read_message(of: Source, pieces: Sequence[Message]) -> MessageData:
    """Return a message as it is shown."""
    return {
        "role": ", ".join(dict.fromkeys(piece.role for piece in pieces)),
        "tokens": sum(block.tokens for block in read_blocks(pieces)),
        "parts": [_part(of, part) for piece in pieces for part in piece.parts],
    }


def _part(of: Source, part: Part) -> PartData:
    match part:
        case Text(text=text):
            kind, name = "text", ""
        case Thinking(text=text):
            kind, name = "thinking", ""
        case Media(name=name, media_type=text):
            kind = "media"
        case ToolCall(name=name, arguments=text):
            kind = "call"
        case ToolResult(name=name, text=text):
            kind = "result"
        case Opaque(name=name, content=text):
            kind = "other"
    return {"kind": kind, "name": of.text(name), "text": of.text(text)}
