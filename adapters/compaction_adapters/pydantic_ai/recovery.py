"""The model that sends a request once more, compacted harder, when the provider says that it is too long.

Only a model sees every way a run can be driven: in streams the request is sent where the stream is read, out of reach of the
hooks around it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.messages import ModelMessage, ModelResponse, repair_messages
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_adapters.pydantic_ai.requests import RunSessions, model_name, options_of
from compaction_adapters.pydantic_ai.summarizing import counted_in
from compaction_hooks import CallOptions, CompactionSession, ContextOverflowError, Message

R = TypeVar("R")


class ModelContextOverflowError(ContextOverflowError, ModelContextWindowExceededError):
    """A request that does not fit, and cannot be made to: also the framework's own error, for handlers and fallbacks of its."""

    def __init__(self, model_name: str, unfit: ContextOverflowError) -> None:
        ModelContextWindowExceededError.__init__(self, model_name, str(unfit))
        self.tokens = unfit.tokens
        self.window = unfit.window
        self.part = unfit.part


@dataclass(slots=True)
class Turn:
    """One request, as it was before the framework prepared it for the wire.

    Attributes:
        ctx: The run; None where a request is sent by a worker that does not know it.
        messages: What the session was given.
        view: What it answered.
        head: What a provider's own compaction stands for, before `messages`.
        own: The run's messages, live, if the request shows them, with nothing put in for this request only; else None.
        persist: Whether these are to become the view.
        sent: What the request held after every other capability had its say; empty where that is not known.
    """

    ctx: RunContext[Any] | None
    session: CompactionSession[ModelMessage]
    options: CallOptions
    messages: list[ModelMessage]
    view: list[ModelMessage]
    head: list[ModelMessage] = field(default_factory=list[ModelMessage])
    own: list[ModelMessage] | None = None
    persist: bool = False
    sent: list[ModelMessage] = field(default_factory=list[ModelMessage])

    @property
    def everything(self) -> list[ModelMessage]:
        """The view, behind what a provider's own compaction stands for."""
        return [*self.head, *self.view]

    def keep(self, view: list[ModelMessage]) -> None:
        """Make the run's messages the view handed out last, if they are to be: a summary is known again if it is on its own."""
        if self.persist and self.own is not None:
            self.own[:] = [*self.head, *self.session.unmerged(view)]

    async def call(
        self,
        model: Model[Any],
        send: Callable[[list[ModelMessage]], Awaitable[R]],
        prepared: list[ModelMessage],
        prepare: Callable[[list[ModelMessage]], list[ModelMessage]],
    ) -> R:
        """Let the session make the call, and send what it hands out.

        Args:
            prepared: The request's messages, as the framework prepared them for the wire.
            prepare: Prepares other messages.

        Raises:
            ModelContextOverflowError: it still overflows, or nothing smaller is valid; the provider's error is its cause.
        """

        async def attempt(view: list[ModelMessage]) -> R:
            if view[: len(self.view)] == self.view:
                return await send(prepared)
            self.keep(view)
            return await send(prepare([*self.head, *view, *self._added_by_others(view)]))

        options = self.options.copy()
        options["model"], options["context_window"] = model_name(model, self.messages), model.context_window
        try:
            with counted_in(self.ctx):
                return await self.session.call(self._history, attempt, answer=_read, **options)
        except ContextOverflowError as unfit:
            raise ModelContextOverflowError(model.model_name, unfit) from unfit.__cause__

    @property
    def _history(self) -> list[ModelMessage]:
        """What is to be compacted: the run's messages, which may have grown since, or what the session was given."""
        return self.messages if self.own is None else self.own[len(self.head) :]

    def _added_by_others(self, view: Sequence[ModelMessage]) -> list[ModelMessage]:
        """What the capabilities after this one put into the request only."""
        known = {id(message) for message in (*self.head, *view, *self.view, *self.messages, *self._history)}
        return [message for message in self.sent if id(message) not in known]


def _read(answer: object) -> Message | None:
    """An answer that was cut short. The run reports the usage of all others, and a stream that was opened says nothing yet."""
    if isinstance(answer, ModelResponse) and answer.finish_reason == "length":
        return PydanticAIFormat().read(answer)[0]
    return None


class RecoveringModel(WrapperModel):
    """A model with one more attempt, compacted, for a request that does not fit.

    Args:
        turn: The request that is to be sent. None: the request itself is all there is to compact, and nothing is kept of that.
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
        """Send a request; once more when the context is too large, or cut the answer short."""

        async def send(prepared: list[ModelMessage]) -> ModelResponse:
            return await self.wrapped.request(prepared, model_settings, model_request_parameters)

        return await self._send(send, messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open a stream; once more when the context is too large. What breaks later has been shown already, and is raised."""
        async with AsyncExitStack() as stack:

            async def send(prepared: list[ModelMessage]) -> StreamedResponse:
                stream = self.wrapped.request_stream(prepared, model_settings, model_request_parameters, run_context)
                return await stack.enter_async_context(stream)

            yield await self._send(send, messages, model_settings, model_request_parameters)

    async def _send(
        self,
        send: Callable[[list[ModelMessage]], Awaitable[R]],
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> R:
        if is_continuation(messages):
            return await send(messages)

        def prepare(view: list[ModelMessage]) -> list[ModelMessage]:
            # Repaired and merged, then rewritten for this model, then merged again: as the framework does it.
            return repair_messages(self.wrapped.prepare_messages(repair_messages(view), parameters))

        turn = self._turn or self._request_alone(messages, settings, parameters)
        return await turn.call(self.wrapped, send, messages, prepare)

    def _request_alone(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Turn:
        """What is sent, as a conversation of its own: a worker that sends requests for a durable run knows no more."""
        session = self._sessions.open_once(f"pydantic-ai:{uuid4()}")
        options = options_of(self.wrapped, messages, settings, parameters, is_shown=lambda _: True)
        options["trigger_ratio"] = 1.0  # when compaction is due, the run has said already
        return Turn(None, session, options, messages, messages)


def is_continuation(messages: Sequence[ModelMessage]) -> bool:
    """Return whether a request says nothing new: it goes on with an answer that the provider paused, and is sent as it is."""
    return not messages or isinstance(messages[-1], ModelResponse)
