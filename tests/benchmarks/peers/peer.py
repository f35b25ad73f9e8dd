"""What the benchmark needs of a peer: to open a conversation, to add a message, and to do what it does before a model call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

Chat: TypeAlias = dict[str, Any]
"""A message as OpenAI's chat completions take it."""
M = TypeVar("M")
"""A message as the peer's framework has it."""

SUMMARY = "\n".join(
    f"- {number}. The user asked for a change; what was read, decided and written is kept in this line of the summary."
    for number in range(1, 31)
)
"""What every summariser answers at once: 30 lines, about 700 tokens."""
RESERVE_TOKENS = 16_384
"""Left free by peers that have no default of their own, as it is by ours."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the provider counted for the call that made an answer, in tokens."""

    input_tokens: int
    output_tokens: int


class Conversation(ABC, Generic[M]):
    """One conversation in the hands of a peer, with the list that its host keeps."""

    def __init__(self) -> None:
        self.messages: list[M] = []
        self.head: list[M] = []
        """What the host sends before the view, and the peer never sees."""

    def append(self, message: M, reported: Reported | None) -> None:
        """Do what the host does with a new message; of an answer it may know what the provider counted for it. Not timed."""
        self.messages.append(message)

    @abstractmethod
    async def view(self) -> Sequence[M]:
        """Do what runs before a model call, and return what is to be sent after `head`. This is what is timed."""


@dataclass(frozen=True, kw_only=True)
class Peer(Generic[M]):
    """A way to keep a conversation inside the window.

    Attributes:
        name: What the tables call it.
        packages: Distributions whose versions stand beside the figures.
        settings: How it is set up, in words.
        open: From a window in tokens to a conversation.
        convert: A whole history as its framework has it; rounds of results may become one message.
        is_answer: Whether a message is the model's, so that a call precedes it.
        chats: What the provider would receive of one message.
        reads_usage: Whether what the provider counted changes what it does.
        sampled_calls: Of a conversation, only so many calls are made, for what reads the whole history in each, and keeps nothing
            from one to the next. None: all of them.
        plays_sessions: Whether it can be asked to play whole sessions in a time that one can wait.
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


def unchanged(history: Sequence[Chat]) -> list[Chat]:
    """Return the history itself, for what takes OpenAI's messages."""
    return list(history)


def is_assistant(message: Chat) -> bool:
    """Whether an OpenAI message is the model's."""
    return bool(message["role"] == "assistant")


def itself(message: Chat) -> Sequence[Chat]:
    """Return an OpenAI message as what is sent of it."""
    return (message,)
