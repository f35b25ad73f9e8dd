"""A model that compacts a request and sends it once more if the provider says that it is too long.

A wrapped model sees the requests of all ways to drive a run. Hooks do not: a streaming run sends its request when the stream is
read, after the hooks have returned.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.messages import ModelMessage, ModelResponse, repair_messages
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_adapters.pydantic_ai.requests import RunSessions, Session, is_continuation, model_name, options_of
from compaction_adapters.pydantic_ai.summarizing import charge_to
from compaction_hooks import CallOptions, ContextOverflowError, Message

R = TypeVar("R")


class ModelContextOverflowError(ContextOverflowError, ModelContextWindowExceededError):
    """A request that cannot be made to fit; also the framework's own error, for its handlers and fallback models."""

    def __init__(self, model_name: str, overflow: ContextOverflowError) -> None:
        ModelContextWindowExceededError.__init__(self, model_name, str(overflow))
        self.tokens = overflow.tokens
        self.window = overflow.window
        self.part = overflow.part


@dataclass(slots=True)
class Turn:
    """One request before the framework prepares it for the wire.

    Attributes:
        ctx: The run; None in a worker of a durable workflow, which does not know the run.
        messages: The messages passed to the session.
        view: The session's view of `messages`.
        own: The run's live list of messages; None if the request has other messages, such as one added for this request only.
        persist: Whether to replace the contents of `own` with the view.
        sent: The request's messages after the changes of all other capabilities; empty if not known.
    """

    ctx: RunContext[Any] | None
    session: Session
    options: CallOptions
    messages: list[ModelMessage]
    view: list[ModelMessage]
    own: list[ModelMessage] | None = None
    persist: bool = False
    sent: list[ModelMessage] = field(default_factory=list[ModelMessage])

    @property
    def history(self) -> list[ModelMessage]:
        """The messages to compact: those of the run, which may have grown since, or those passed to the session."""
        return self.messages if self.own is None else self.own

    def persist_view(self, view: list[ModelMessage]) -> None:
        """Replace the run's messages with this view if `persist` is set."""
        if self.persist and self.own is not None:
            # Unmerged: the core recognizes a summary only in a message of its own.
            self.own[:] = self.session.unmerged(view)

    def complete(self, view: list[ModelMessage]) -> list[ModelMessage]:
        """Return another view than `view`, and the messages that later capabilities added to the request only."""
        known = {id(message) for message in (*view, *self.view, *self.messages, *self.history)}
        return [*view, *(message for message in self.sent if id(message) not in known)]

    def prepare(self, view: list[ModelMessage], request: ModelRequestContext) -> list[ModelMessage]:
        """Return the messages of a request with this view, in the framework's own order: repair, rewrite for its model, repair."""
        whole = request.model.prepare_messages(repair_messages(self.complete(view)), request.model_request_parameters)
        return repair_messages(whole)

    def options_for(self, model: Model[Any]) -> CallOptions:
        """Return the options of the request if this model gets it."""
        options = self.options.copy()
        options["model"] = model_name(model, self.messages)
        options["context_window"] = model.context_window
        return options


def _read(answer: object) -> Message | None:
    """Read how an answer ended, and its usage if it was cut short: the run reports all other usage. None for a stream."""
    if not isinstance(answer, ModelResponse):
        return None
    read = PydanticAIFormat().read(answer)[0]
    return read if answer.finish_reason == "length" else replace(read, usage=None)


class RecoveringModel(WrapperModel):
    """A model that compacts a request that does not fit or was cut short by the window, and sends it once more.

    Args:
        turn: The request before it was prepared. None: compact the prepared request, and keep no record.
    """

    def __init__(self, wrapped: Model[Any], turn: Turn | None, sessions: RunSessions) -> None:
        super().__init__(wrapped)
        self._turn = turn
        self._sessions = sessions

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request.

        Raises:
            ModelContextOverflowError: the second request overflows too, or nothing smaller is valid; the provider's error is its
                cause.
        """

        async def send(prepared: list[ModelMessage]) -> ModelResponse:
            return await self.wrapped.request(prepared, model_settings, model_request_parameters)

        return await self._send(send, self._context(messages, model_settings, model_request_parameters))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open a stream. Errors after its first chunk are raised."""
        async with AsyncExitStack() as stack:

            async def send(prepared: list[ModelMessage]) -> StreamedResponse:
                stream = self.wrapped.request_stream(prepared, model_settings, model_request_parameters, run_context)
                return await stack.enter_async_context(stream)

            yield await self._send(send, self._context(messages, model_settings, model_request_parameters))

    def _context(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelRequestContext:
        return ModelRequestContext(
            model=self.wrapped, messages=messages, model_settings=settings, model_request_parameters=parameters
        )

    async def _send(self, send: Callable[[list[ModelMessage]], Awaitable[R]], request: ModelRequestContext) -> R:
        """Make the call through the session, and send its views."""
        if is_continuation(request.messages):
            return await send(request.messages)
        turn = self._turn or self._open_single_turn(request)

        async def attempt(view: list[ModelMessage]) -> R:
            if view[: len(turn.view)] == turn.view:
                return await send(request.messages)
            turn.persist_view(view)
            return await send(turn.prepare(view, request))

        try:
            with charge_to(turn.ctx):
                return await turn.session.call(turn.history, attempt, answer=_read, **turn.options_for(self.wrapped))
        except ContextOverflowError as overflow:
            raise ModelContextOverflowError(self.wrapped.model_name, overflow) from overflow.__cause__

    def _open_single_turn(self, request: ModelRequestContext) -> Turn:
        """Return the request as a conversation of its own, for a worker of a durable workflow that does not know the run."""
        options = options_of(request, is_shown=lambda _: True)
        options["trigger_tokens"] = sys.maxsize  # the run has decided already whether compaction is due
        session = self._sessions.open_once(f"pydantic-ai:{uuid4()}")
        return Turn(None, session, options, request.messages, request.messages)


def recovering(model: Model[Any], turn: Turn | None, sessions: RunSessions) -> Model[Any]:
    """Return a model that recovers; a fallback model whose candidates do, each with a view for its own window."""
    if not isinstance(model, FallbackModel):
        return RecoveringModel(model, turn, sessions)
    fallback = copy(model)
    fallback.models = [recovering(candidate, turn, sessions) for candidate in model.models]
    return fallback
