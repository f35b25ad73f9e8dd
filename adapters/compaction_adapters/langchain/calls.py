"""One model call of an agent: how a view is sent, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from langchain.agents.middleware.types import ContextT, ModelRequest, ModelResponse, ResponseT
from langchain_core.messages import AIMessage, BaseMessage

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain.requests import with_view
from compaction_adapters.langchain.streaming import HandlerWatch
from compaction_adapters.langchain_core import PassedOn, passed_on, read_answer
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
class ModelCall(Generic[ContextT, ResponseT]):
    """Sends views of one request, and tells what came of it."""

    request: ModelRequest[ContextT]
    watch: HandlerWatch = field(default_factory=HandlerWatch)

    def sender(
        self, handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> Callable[[list[BaseMessage]], Answered[ResponseT] | PassedOn]:
        """Return what sends a view."""

        return lambda view: run(self._sending(handler, view))

    def async_sender(
        self, handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]]
    ) -> Callable[[list[BaseMessage]], Awaitable[Answered[ResponseT] | PassedOn]]:
        """As `sender`, for handlers that are awaited."""

        async def send(view: list[BaseMessage]) -> Answered[ResponseT] | PassedOn:
            return await run_async(self._sending(handler, view))

        return send

    def _sending(self, handler: Callable[..., Any], view: list[BaseMessage]) -> Flow[Answered[ResponseT] | PassedOn]:
        try:
            with self.watch.watching():
                return _answered((yield Twin(handler, handler, with_view(self.request, view))))
        except Exception as error:  # noqa: BLE001 - raised again, or passed on
            return passed_on(error, self.watch)

    def read(self, answer: Answered[ResponseT] | PassedOn) -> Message | None:
        """Return the model's message with its usage and how it ended."""
        if isinstance(answer, PassedOn) or answer.message is None:
            return None
        return read_answer(answer.message, self.watch)


def _answered(response: ModelResponse[ResponseT]) -> Answered[ResponseT]:
    return Answered(response, next((message for message in response.result if isinstance(message, AIMessage)), None))
