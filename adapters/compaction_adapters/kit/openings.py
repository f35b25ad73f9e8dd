"""The beginning of a conversation, which names it where a framework does not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from compaction_hooks import MessageFormat
from compaction_hooks.messages import Media, Opaque, Text

N = TypeVar("N")
"""The type of a framework's messages."""


def opening_key(format: MessageFormat[N], messages: Sequence[N]) -> str:
    """Return a key of the conversation that begins with these messages: a hash of the text up to the first user message.

    System prompts are left out: many hold the time of day.
    """
    said: list[str] = []
    for message in messages:
        pieces = format.read(message)
        for piece in pieces:
            if piece.role != "system":
                said += [part.text for part in piece.parts if isinstance(part, Text | Opaque)]
                said += [part.identity for part in piece.parts if isinstance(part, Media)]
        if any(piece.role == "user" for piece in pieces):
            break
    return hashlib.sha256("".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:32]
