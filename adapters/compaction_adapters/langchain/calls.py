"""One model call as a session is shown it: what to send, what its answer says, and which errors are none of its business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Generic

from langchain.agents.middleware.types import ContextT, ModelRequest, ModelResponse, ResponseT
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.errors import GraphBubbleUp

from compaction_adapters.langchain.requests import FORMAT, with_view
from compaction_adapters.langchain.streaming import HandlerWatch
from compaction_hooks import Message


@dataclass(frozen=True, slots=True)
class Answered(Generic[ResponseT]):
    """What a handler returned.

    Attributes:
        message: The model's own message, where the session looks for signs of a silent overflow; None where middleware inside
            answered without one.
    """

    response: ModelResponse[ResponseT]
    message: AIMessage | None


@dataclass(frozen=True, slots=True)
class PassedOn:
    """Stands for an answer where the handler raised what must reach the agent as it is.

    The session would look at an exception, and might find an overflow to recover from.
    """

    raised: Exception


@dataclass(frozen=True, slots=True)
class ModelCall(Generic[ContextT, ResponseT]):
    """Sends views of one request, and tells what came of it."""

    request: ModelRequest[ContextT]
    watch: HandlerWatch = field(default_factory=HandlerWatch)

    def sender(
        self, handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> Callable[[list[BaseMessage]], Answered[ResponseT] | PassedOn]:
        """Return what sends a view."""

        def send(view: list[BaseMessage]) -> Answered[ResponseT] | PassedOn:
            try:
                with self.watch.watching():
                    return _answered(handler(with_view(self.request, view)))
            except Exception as error:  # noqa: BLE001 - raised again, or passed on
                return self._failed(error)

        return send

    def async_sender(
        self, handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]]
    ) -> Callable[[list[BaseMessage]], Awaitable[Answered[ResponseT] | PassedOn]]:
        """As `sender`, for handlers that are awaited."""

        async def send(view: list[BaseMessage]) -> Answered[ResponseT] | PassedOn:
            try:
                with self.watch.watching():
                    return _answered(await handler(with_view(self.request, view)))
            except Exception as error:  # noqa: BLE001 - raised again, or passed on
                return self._failed(error)

        return send

    def read(self, answer: Answered[ResponseT] | PassedOn) -> Message | None:
        """Return the model's message with its usage and how it ended."""
        if isinstance(answer, PassedOn) or answer.message is None:
            return None
        read = FORMAT.read(answer.message)[0]
        # What the user has seen stands, so that it must not be asked for again; the next call compacts first.
        is_seen = read.stop_reason == "length" and self.watch.has_tokens
        return replace(read, stop_reason=None) if is_seen else read

    def _failed(self, error: Exception) -> PassedOn:
        """Return an interrupt, and an error in the midst of a stream; raise any other, for the session to see."""
        if isinstance(error, GraphBubbleUp) or self.watch.has_broken:
            return PassedOn(error)
        raise error


def _answered(response: ModelResponse[ResponseT]) -> Answered[ResponseT]:
    return Answered(response, next((message for message in response.result if isinstance(message, AIMessage)), None))
