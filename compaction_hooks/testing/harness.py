"""Protocols for `check_adapter`: the harness by the author of an adapter, and the scripted provider."""

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
    """The parameters of a new conversation.

    Attributes:
        controller: The controller for the adapter. None: the framework alone, without the adapter. Mostly it has no summarizer,
            so the adapter uses the conversation's own model; if the adapter cannot know it (a graph node), the harness
            passes `summarizer(model)` to the adapter.
        conversation_id: The id in the framework's own terms: thread id, conversation id, metadata.
        openai_url: Base URL for OpenAI's clients, ".../v1".
        anthropic_url: Base URL for Anthropic's clients.
        api_key: Names the conversation to the provider.
        model: The model's name; the framework may need a prefix.
        system: The agent's system prompt.
        tools: The agent's tools, with their schemas.
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
    """One conversation of the real framework. Errors of the framework are not caught.

    A subclass may leave out methods for features that its framework lacks.
    """

    @property
    def session_id(self) -> str:
        """The id under which the adapter opens the controller's session of this conversation."""
        ...

    async def say(self, text: str, /) -> str:
        """Send a prompt of the user, run the agent to its end, and return the final text. The call may be cancelled."""
        ...

    def say_sync(self, text: str, /) -> str:  # noqa: ARG002 - subclasses use it
        """Do the same with the framework's sync methods, outside any event loop. Only with `has_sync`."""
        return _raise_missing("say_sync")

    async def say_streamed(self, text: str, /) -> Sequence[str]:  # noqa: ARG002 - subclasses use it
        """Do the same with streaming; return all pieces of text that a user would see. Only with `has_streaming`."""
        return _raise_missing("say_streamed")

    async def history(self) -> Sequence[M_co]:
        """Return the framework's own messages of the whole conversation."""
        ...


def _raise_missing(method: str) -> NoReturn:
    raise NotImplementedError(f"the conversation has no {method}: write it, or let the harness say that there is none")


class AdapterHarness(Protocol[M]):
    """The framework with the adapter in it. Clients must not retry (`max_retries=0`), since requests are counted."""

    @property
    def name(self) -> str:
        """The adapter's name."""
        ...

    @property
    def format(self) -> MessageFormat[M]:
        """The format of the framework's messages."""
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
        """Whether the host's messages stay complete; False if the adapter persists the compacted list."""
        ...

    def open(self, opening: Opening, /) -> AbstractAsyncContextManager[HostConversation[M]]:
        """Open a conversation; close its clients at the end."""
        ...


class SeenRequest(Protocol):
    """A request at the provider."""

    @property
    def body(self) -> Mapping[str, object]:
        """The JSON that was sent."""
        ...

    @property
    def is_summary(self) -> bool:
        """Whether it asks for a summary."""
        ...

    @property
    def status(self) -> int:
        """The HTTP status of its response."""
        ...


class ProviderSide(Protocol):
    """The provider's side of one conversation.

    Attributes:
        reject_next: Number of next model requests to reject as too long, regardless of their size.
        fail_summaries: Whether summary requests get status 500.
        summary_text: The summary in responses to summary requests.
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
        """Number of answers not yet given."""
        ...


class ScriptedProvider(Protocol):
    """A server with the protocols of OpenAI and Anthropic that gives scripted answers."""

    @property
    def openai_url(self) -> str:
        """Base URL for OpenAI's clients, ".../v1"."""
        ...

    @property
    def anthropic_url(self) -> str:
        """Base URL for Anthropic's clients."""
        ...

    def conversation(self, key: str, /, *, window: int, answers: Sequence[Answer]) -> ProviderSide:
        """Open the conversation of all requests with this API key. Requests longer than `window` tokens are rejected, as are
        tool calls without results and results without tool calls.
        """
        ...
