"""What is known of a conversation's parts: a piece of it, and what earlier compactions left in a list."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from compaction_hooks.messages import Message, Text, Thinking

Side: TypeAlias = Literal["host", "assistant"]


class Piece(NamedTuple):
    """One speaker's part of one host message.

    Attributes:
        host: Index of the host message.
        number: Index into what the format read from it.
        tokens: Estimated size in tokens, before calibration.
        side: Whose side it counts for; None for what no digest covers (system, our own summary and its pins).
    """

    message: Message
    host: int
    number: int
    tokens: int
    side: Side | None


class Origin(NamedTuple):
    """Where the chain of a list begins that starts with one of our summaries.

    Attributes:
        runs: Runs the summary covers, counted from the start of the conversation.
        digest: The chain after them.
        pins: Digests of the messages that follow the summary and repeat what it covers.
    """

    runs: int
    digest: str
    pins: tuple[str, ...]


class Known(NamedTuple):
    """What a reader must know of earlier compactions to read a list that holds their products.

    Attributes:
        origins: By digest of the rendered summary text.
        originals: By kind ("result" or "arguments"), run, ordinal and digest of a reduced text, the digest of the text it
            stands for.
    """

    origins: Mapping[str, Origin] = MappingProxyType({})
    originals: Mapping[tuple[str, int, int, str], str] = MappingProxyType({})


def has_atoms(message: Message) -> bool:
    """Whether a message says anything that a digest covers or a provider takes for content; reasoning alone does not."""
    for part in message.parts:
        if isinstance(part, Text):
            if part.text:
                return True
        elif not isinstance(part, Thinking):
            return True
    return False
