"""The interface of a peer in the benchmark: open a conversation, add a message, get the view before a model call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

Chat: TypeAlias = dict[str, Any]
"""A message of OpenAI's chat completions."""
M = TypeVar("M")
"""A message of the peer's framework."""

SUMMARY = "\n".join(
    f"- {number}. The user asked for a change; what was read, decided and written is kept in this line of the summary."
    for number in range(1, 31)
)
"""The instant answer of every summarizer: 30 lines, about 700 tokens."""
RESERVE_TOKENS = 16_384
"""Our default reserve, also for peers without a default of their own."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The provider's token counts for the call of an answer."""

    input_tokens: int
    output_tokens: int


class Conversation(ABC, Generic[M]):
    """One conversation of a peer, with its host's list."""

    def __init__(self) -> None:
        self.messages: list[M] = []
        self.head: list[M] = []
        """Messages that the host sends before the view, and the peer does not see."""

    def append(self, message: M, reported: Reported | None) -> None:
        """Add a new message as the host does, an answer possibly with its usage. Not timed."""
        self.messages.append(message)

    @abstractmethod
    async def view(self) -> Sequence[M]:
        """Return the list to send after `head`, as before a model call. This is timed."""


@dataclass(frozen=True, kw_only=True)
class Peer(Generic[M]):
    """A way to keep a conversation inside the window.

    Attributes:
        name: Its name in the tables.
        packages: Distributions whose versions are printed with the figures.
        settings: Its set-up, in words.
        open: Opens a conversation with a window in tokens.
        convert: Converts a whole history to its framework's messages; rounds of results may become one message.
        is_answer: Whether a message is the model's, so that a call precedes it.
        chats: Converts one message to those that the provider would receive.
        reads_usage: Whether its decisions depend on the provider's token counts.
        sampled_calls: Number of calls to make in a conversation, for a peer that reads the whole history in each call and keeps
            no state. None: all calls.
        plays_sessions: Whether it is fast enough to play whole sessions.
    """

    name: str
    packages: tuple[str, ...]
    settings: str
    open: Callable[[int], Conversation[M]]
    convert: Callable[[Sequence[Chat]], list[M]]
    is_answer: Callable[[M], bool]
    chats: Callable[[M], Sequence[Chat]]
    reads_usage: bool = False
    sampled_calls: int | None = None
    plays_sessions: bool = True


def copy_list(history: Sequence[Chat]) -> list[Chat]:
    """Return a copy of the list, for peers with OpenAI's messages."""
    return list(history)


def is_assistant(message: Chat) -> bool:
    """Whether an OpenAI message is the model's."""
    return bool(message["role"] == "assistant")


def itself(message: Chat) -> Sequence[Chat]:
    """Return the OpenAI message itself, as it is sent."""
    return (message,)
