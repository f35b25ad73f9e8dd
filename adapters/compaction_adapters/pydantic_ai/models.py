"""The options of a request, and a model that compacts it and sends it once more if the provider says that it is too long.

A wrapped model sees the requests of all ways to drive a run. Hooks do not: a streaming run sends its request when the stream is
read, after the hooks have returned.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from compaction_adapters.kit import Sessions, positive, tool_schema
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_adapters.pydantic_ai.summaries import charge_to, leaf_models
from compaction_hooks import CallOptions, CompactionSession, ContextOverflowError, Message

R = TypeVar("R")
Session: TypeAlias = CompactionSession[ai.ModelMessage]
EVIDENCE_KINDS: Final = ("tool-search", "capability-load")
"""Kinds of tools whose results are the framework's only record of found tools and loaded capabilities."""


# -- requests


def is_continuation(messages: Sequence[ai.ModelMessage]) -> bool:
    """Return whether a request only continues an answer that the provider paused: it is sent unchanged."""
    return not messages or isinstance(messages[-1], ai.ModelResponse)


def options_of(
    model: Any,
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    is_shown: Callable[[ToolDefinition], bool],
) -> CallOptions:
    """Return the options of a request: its model and window, and the instructions and tools that are not in the list.

    Args:
        model: The model; of a fallback model the name of the first candidate counts, which the framework always asks first.
        is_shown: Whether the model has found a tool that is deferred.
    """
    told, leaves = {**(settings or {})}, leaf_models(model)
    tools = [*parameters.function_tools, *parameters.output_tools]
    shown = [tool for tool in tools if not tool.defer_loading or is_shown(tool)]
    return CallOptions(
        model=leaves[0].model_name if leaves else None,
        context_window=model.context_window if leaves else None,
        max_output_tokens=positive(told.get("max_tokens")),
        system="\n\n".join(part.content for part in parameters.instruction_parts or ()),
        tools=[tool_schema(tool.name, tool.description, tool.parameters_json_schema) for tool in shown],
        request=ChainMap(told, *({**(leaf.settings or {})} for leaf in leaves)),
    )


def request_in(ctx: RunContext[Any], messages: list[ai.ModelMessage]) -> ModelRequestContext:
    """Return a request with these messages, as a run that has none yet would make it."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    requests = (message for message in reversed(messages) if isinstance(message, ai.ModelRequest))
    instructions = next((request.instructions for request in requests), None)
    parameters = ModelRequestParameters(
        function_tools=[tool.tool_def for tool in (tools or {}).values()],
        instruction_parts=[ai.InstructionPart(instructions or "")],
    )
    run: Any = ctx  # its model may be of any kind: `options_of` knows those that answer no requests
    return ModelRequestContext(
        model=run.model, messages=messages, model_settings=run.model_settings, model_request_parameters=parameters
    )


def pin_evidence(session: Session, messages: Sequence[ai.ModelMessage]) -> None:
    """Pin the results that record found tools and loaded capabilities, with their tool calls.

    The framework reads both from the messages after the newest summary: without them it would hide the tools again.
    """
    for message in messages:
        results = [part for part in message.parts if isinstance(part, ai.ToolReturnPart | ai.NativeToolReturnPart)]
        found: list[Any] = [part for part in results if part.tool_kind in EVIDENCE_KINDS]
        if found and isinstance(message, ai.ModelRequest):
            session.keep(replace(message, parts=found))
        elif found and any(isinstance(part, ai.TextPart | ai.ToolCallPart) for part in message.parts):
            # A digest leaves out the provider's own tool results: other parts identify the response.
            session.keep(message)


@dataclass(slots=True)
class Turn:
    """One request before the framework prepares it for the wire.

    Attributes:
        ctx: The run; None in a worker of a durable workflow, which does not know the run.
        messages: The messages to compact: the run's live list, or those of a request that another capability has changed.
        view: The session's view of `messages`.
        is_persisted: Whether views replace the contents of `messages`.
        sent: The request's messages after the changes of all other capabilities; empty if not known.
    """

    ctx: RunContext[Any] | None
    session: Session
    options: CallOptions
    messages: list[ai.ModelMessage]
    view: list[ai.ModelMessage]
    is_persisted: bool = False
    sent: Sequence[ai.ModelMessage] = ()

    def persist_view(self, view: list[ai.ModelMessage]) -> None:
        """Replace the run's messages with this view, if they are to be replaced."""
        if self.is_persisted:
            # Unmerged: the core recognizes a summary only in a message of its own.
            self.messages[:] = self.session.unmerged(view)

    def prepare(
        self, view: list[ai.ModelMessage], model: Model[Any], parameters: ModelRequestParameters
    ) -> list[ai.ModelMessage]:
        """Return another view as the framework prepares it, with the messages that later capabilities added to the request only.

        The framework repairs the messages, rewrites them for the model, and repairs them again.
        """
        known = {id(message) for message in (*view, *self.view, *self.messages)}
        whole = ai.repair_messages([*view, *(message for message in self.sent if id(message) not in known)])
        return ai.repair_messages(model.prepare_messages(whole, parameters))


# -- recovery


class ModelContextOverflowError(ContextOverflowError, ModelContextWindowExceededError):
    """A request that cannot be made to fit; also the framework's own error, for its handlers and fallback models."""

    def __init__(self, model_name: str, overflow: ContextOverflowError) -> None:
        ModelContextWindowExceededError.__init__(self, model_name, str(overflow))
        self.tokens = overflow.tokens
        self.window = overflow.window
        self.part = overflow.part


def _read(answer: object) -> Message | None:
    return PydanticAIFormat().read(answer)[0] if isinstance(answer, ai.ModelResponse) else None


class RecoveringModel(WrapperModel):
    """A model that compacts a request that does not fit or was cut short by the window, and sends it once more.

    Args:
        turn: The request before it was prepared. None: compact the prepared request, and keep no record.
    """

    def __init__(self, wrapped: Model[Any], turn: Turn | None, sessions: Sessions[ai.ModelMessage]) -> None:
        super().__init__(wrapped)
        self._turn = turn
        self._sessions = sessions

    async def request(
        self,
        messages: list[ai.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ai.ModelResponse:
        """Send a request.

        Raises:
            ModelContextOverflowError: the second request overflows too, or nothing smaller is valid; the provider's error is its
                cause.
        """
        others = model_settings, model_request_parameters
        return await self._send(lambda prepared: self.wrapped.request(prepared, *others), messages, *others)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ai.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open a stream. Errors after its first chunk are raised."""
        others = model_settings, model_request_parameters
        async with AsyncExitStack() as stack:

            def send(prepared: list[ai.ModelMessage]) -> Awaitable[StreamedResponse]:
                return stack.enter_async_context(self.wrapped.request_stream(prepared, *others, run_context))

            yield await self._send(send, messages, *others)

    async def _send(
        self,
        send: Callable[[list[ai.ModelMessage]], Awaitable[R]],
        messages: list[ai.ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> R:
        """Make the call through the session, and send its views."""
        if is_continuation(messages):
            return await send(messages)
        turn = self._turn or self._open_single_turn(messages, settings, parameters)
        name, window = leaf_models(self.wrapped)[0].model_name, self.wrapped.context_window
        options: CallOptions = {**turn.options, "model": name, "context_window": window}

        async def attempt(view: list[ai.ModelMessage]) -> R:
            if view[: len(turn.view)] == turn.view:
                return await send(messages)
            turn.persist_view(view)
            return await send(turn.prepare(view, self.wrapped, parameters))

        try:
            with charge_to(turn.ctx):
                return await turn.session.call(turn.messages, attempt, answer=_read, **options)
        except ContextOverflowError as overflow:
            raise ModelContextOverflowError(self.wrapped.model_name, overflow) from overflow.__cause__

    def _open_single_turn(
        self, messages: list[ai.ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Turn:
        """Return the request as a conversation of its own, for a worker of a durable workflow that does not know the run."""
        options = options_of(self.wrapped, settings, parameters, is_shown=lambda _: True)
        options["trigger_tokens"] = sys.maxsize  # the run has decided already whether compaction is due
        return Turn(None, self._sessions.open_once(f"pydantic-ai:{uuid4()}"), options, messages, messages)
