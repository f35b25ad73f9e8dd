"""The pieces of a conversation, and the traces of earlier compactions in a list."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from compaction_hooks.messages import Message, NativeSummary, Text, Thinking

Side: TypeAlias = Literal["host", "assistant"]


class Piece(NamedTuple):
    """One speaker's part of one host message.

    Attributes:
        host: Index of the host message.
        number: Index into the messages that the format read from it.
        tokens: Estimated size in tokens, before calibration.
        side: The side of the piece; None for pieces that no digest covers (system, our own summary and its pins).
    """

    message: Message
    host: int
    number: int
    tokens: int
    side: Side | None


class Origin(NamedTuple):
    """The start of the digest chain in a list with one of our summaries at its head.

    Attributes:
        runs: Runs that the summary covers, from the start of the conversation.
        digest: The chain after them.
        pins: Digests of the pinned messages that follow the summary, though it covers them.
    """

    runs: int
    digest: str
    pins: tuple[str, ...]


class UserWords(NamedTuple):
    """What a summary must keep of a piece of the user: its constraints, word for word, and lines that name its media."""

    constraints: tuple[str, ...]
    media: tuple[str, ...]


class Known(NamedTuple):
    """The summaries and reduced texts of earlier compactions, so that a reader recognizes them in a list.

    Attributes:
        origins: By digest of the rendered summary text.
        originals: By kind ("result" or "arguments"), run, ordinal and digest of a reduced text, the digest of the
            original text.
    """

    origins: Mapping[str, Origin] = MappingProxyType({})
    originals: Mapping[tuple[str, int, int, str], str] = MappingProxyType({})


def has_atoms(message: Message) -> bool:
    """Whether a message has content that a digest covers or a provider accepts as content; reasoning alone is none.

    Nor is a sealed summary: it says nothing that the messages before it do not say.
    """
    for part in message.parts:
        if isinstance(part, Text):
            if part.text:
                return True
        elif not isinstance(part, Thinking) and not (isinstance(part, NativeSummary) and part.sealed):
            return True
    return False


def is_only_reasoning(message: Message) -> bool:
    """Whether a message of the assistant holds reasoning and nothing else: an item of OpenAI Responses, for one."""
    return message.role == "assistant" and bool(message.parts) and not has_atoms(message)
