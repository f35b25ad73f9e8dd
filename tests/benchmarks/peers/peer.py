"""The interface of a peer: one conversation, with its host's list and the view before each model call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

Chat: TypeAlias = dict[str, Any]
"""A message of OpenAI's chat completions."""
M = TypeVar("M")
"""A message of the peer's framework."""

RESERVE_TOKENS = 16_384
"""Our default reserve, also for peers without a default of their own."""


class Asked(NamedTuple):
    """A request for a summary: the prompt; the messages in it and the previous summary, if the peer hands them over."""

    prompt: str
    messages: Sequence[Chat] | None = None
    previous: str | None = None


Summarize: TypeAlias = Callable[[Callable[[], Asked]], str]
"""A summarizer of all peers. It gets a function, so that one that needs no request spends no time on it."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The provider's token counts for the call of an answer."""

    input_tokens: int
    output_tokens: int


class BasePeer(ABC, Generic[M]):
    """A way to keep one conversation inside the window.

    Attributes:
        name: Its name in the tables.
        packages: Distributions whose versions are printed with the figures.
        reads_usage: Whether its decisions depend on the provider's token counts.
        messages: The host's list.
        head: Messages that the host sends before the view, and the peer does not see.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    reads_usage: ClassVar[bool] = False

    def __init__(self, window: int, summarize: Summarize) -> None:
        self.window = window
        self.summarize = summarize
        self.messages: list[M] = []
        self.head: list[M] = []

    @staticmethod
    @abstractmethod
    def convert(history: Sequence[Chat]) -> list[M]:
        """Return a history in the framework's messages; rounds of results may become one message."""

    @staticmethod
    @abstractmethod
    def is_answer(message: M) -> bool:
        """Whether a message is the model's, so that a call precedes it."""

    @staticmethod
    @abstractmethod
    def chats(message: M) -> Sequence[Chat]:
        """Return the messages that the provider would receive for one message."""

    def append(self, message: M, reported: Reported | None) -> None:
        """Add a new message as the host does, an answer possibly with its usage. Not timed."""
        self.messages.append(message)

    @abstractmethod
    async def view(self) -> Sequence[M]:
        """Return the list to send after `head`, as before a model call. This is timed."""


class ChatPeer(BasePeer[Chat]):
    """A peer that takes OpenAI's messages."""

    @staticmethod
    def convert(history: Sequence[Chat]) -> list[Chat]:
        return list(history)

    @staticmethod
    def is_answer(message: Chat) -> bool:
        return bool(message["role"] == "assistant")

    @staticmethod
    def chats(message: Chat) -> Sequence[Chat]:
        return (message,)
