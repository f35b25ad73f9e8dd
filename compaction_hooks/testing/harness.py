"""What the author of an adapter supplies to `check_adapter`, and what the provider it is checked against must offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias, TypeVar

from compaction_hooks import CompactionController
from compaction_hooks.messages import M, MessageFormat
from compaction_hooks.testing.scripts import Answer, ScriptedTool

M_co = TypeVar("M_co", covariant=True)
ChatController: TypeAlias = CompactionController[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What one conversation is opened with.

    Attributes:
        controller: To be given to the adapter. None: the framework alone, without the adapter. Mostly it has no summarizer,
            and the adapter is to ask the conversation's own model; where the adapter cannot know it (a graph node), the
            harness passes the adapter `summarizer(model)`.
        conversation_id: To be given in the framework's own notion: thread id, conversation id, metadata.
        openai_url: Base URL for OpenAI's clients, ".../v1".
        anthropic_url: Base URL for Anthropic's clients.
        api_key: Names the conversation to the provider.
        model: The model's name; the framework may need its own prefix.
        system: The agent's system prompt.
        tools: To be offered to the model, with their schemas, and run when it calls them.
    """

    controller: ChatController | None
    conversation_id: str
    openai_url: str
    anthropic_url: str
    api_key: str
    model: str
    system: str
    tools: Sequence[ScriptedTool]


class HostConversation(Protocol[M_co]):
    """One conversation of the real framework. What the framework raises is let through.

    A class that inherits from it need not write what its framework does not have.
    """

    @property
    def session_id(self) -> str:
        """The id under which the adapter opens the controller's session of this conversation."""
        ...

    async def say(self, text: str, /) -> str:
        """Let the user say this, run the agent until it has answered, and return the final text. It may be cancelled."""
        ...

    def say_sync(self, text: str, /) -> str:  # noqa: ARG002 - for whoever overrides it
        """As `say`, by the framework's sync methods, called outside any event loop. Only with `has_sync`."""
        return _not_written("say_sync")

    async def say_streamed(self, text: str, /) -> Sequence[str]:  # noqa: ARG002 - for whoever overrides it
        """As `say`, with the model called for a stream; all pieces of text that a user would see. Only with `has_streaming`."""
        return _not_written("say_streamed")

    async def history(self) -> Sequence[M_co]:
        """Return the framework's own messages of the whole conversation."""
        ...


def _not_written(method: str) -> NoReturn:
    raise NotImplementedError(f"the conversation has no {method}: write it, or let the harness say that there is none")


class AdapterHarness(Protocol[M]):
    """The framework with the adapter in it. Clients must not retry (`max_retries=0`): what is sent is counted."""

    @property
    def name(self) -> str:
        """The adapter's name."""
        ...

    @property
    def format(self) -> MessageFormat[M]:
        """How the framework writes its messages."""
        ...

    @property
    def has_sync(self) -> bool:
        """Whether the framework can be used without an event loop."""
        ...

    @property
    def has_streaming(self) -> bool:
        """Whether it can stream."""
        ...

    @property
    def keeps_history(self) -> bool:
        """Whether the host's messages stay whole; False for forms that persist what compaction leaves."""
        ...

    def open(self, opening: Opening, /) -> AbstractAsyncContextManager[HostConversation[M]]:
        """Open a conversation; its clients are closed at the end."""
        ...


class SeenRequest(Protocol):
    """A request as it reached the provider."""

    @property
    def body(self) -> Mapping[str, object]:
        """The JSON that was sent."""
        ...

    @property
    def is_summary(self) -> bool:
        """Whether a summary is asked for."""
        ...

    @property
    def status(self) -> int:
        """The HTTP status it was answered with."""
        ...


class ProviderSide(Protocol):
    """The provider's side of one conversation.

    Attributes:
        reject_next: So many of the next model requests are rejected as too long, whatever their size.
        fail_summaries: Summary requests get status 500.
        summary_text: What summary requests are answered.
    """

    reject_next: int
    fail_summaries: bool
    summary_text: str

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """All requests, in order."""
        ...

    @property
    def remaining(self) -> int:
        """Answers not yet given."""
        ...


class ScriptedProvider(Protocol):
    """A server that speaks the protocols of OpenAI and Anthropic and plays the model's answers."""

    @property
    def openai_url(self) -> str:
        """Base URL for OpenAI's clients, ".../v1"."""
        ...

    @property
    def anthropic_url(self) -> str:
        """Base URL for Anthropic's clients."""
        ...

    def conversation(self, key: str, /, *, window: int, answers: Sequence[Answer]) -> ProviderSide:
        """Open the conversation of all requests with this API key: longer ones than `window` tokens are rejected, as are
        calls without results and results without calls.
        """
        ...
