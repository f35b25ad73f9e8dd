"""A model that compacts a request and sends it once more if the provider says that it is too long, and summaries by models.

A wrapped model sees the requests of all ways to drive a run. Hooks do not: a streaming run sends its request when the stream is
read, after the hooks have returned.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast
from uuid import uuid4

from pydantic_ai import Agent, RunContext
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.models import (
    Model,
    ModelRequestContext,
    ModelRequestParameters,
    StreamedResponse,
    parse_model_id,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RunUsage, UsageLimits

from compaction_adapters.kit import (
    NATIVE_TOKENS,
    REASONING_TOKENS,
    NativeSummaries,
    Sessions,
    ask_in_place,
    positive,
    read_block,
    summary_of,
    tool_schema,
    with_reasoning_room,
)
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat, counts_of
from compaction_hooks import (
    CallOptions,
    CompactionSession,
    ContextOverflowError,
    LiveCall,
    Message,
    Summarizer,
    Summary,
    SummaryRequest,
)
from compaction_hooks.arguments import format_name
from compaction_hooks.errors import ConfigurationError, SummaryRefusedError
from compaction_hooks.messages import Provider
from compaction_hooks.native import Issuer, NativeItems

R = TypeVar("R")
Session: TypeAlias = CompactionSession[ai.ModelMessage]
_RUN: Final[ContextVar[RunContext[Any] | None]] = ContextVar("compaction_run", default=None)
"""The run that a summary is for. A context variable, because a controller passes no run to its summarizer."""
_PROVIDERS: Final[Mapping[str, Provider]] = {"anthropic": "anthropic", "openai": "openai_responses"}
"""The APIs that compact, by the `system` of a model of theirs."""
_SENT: Final = "pydantic_ai_sent"
"""The option of a call that holds its `_Sent`."""


# -- requests


def leaf_models(model: object) -> list[Model[Any]]:
    """Return the models that a request may reach behind wrappers and fallbacks, the first choice first.

    There are none behind a model that answers no requests, such as a realtime model.
    """
    if isinstance(model, WrapperModel):
        return leaf_models(model.wrapped)
    if isinstance(model, FallbackModel):
        return [leaf for candidate in model.models for leaf in leaf_models(candidate)]
    return [model] if isinstance(model, Model) else []  # pyright: ignore[reportUnknownVariableType] - of any client


def writes_text(model: object) -> bool:
    """Return whether a model can write a summary; realtime models and models without text output cannot."""
    return any(leaf.profile.get("supports_text_output", True) for leaf in leaf_models(model)[:1])


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
        request=ChainMap(
            told, {"output_type": _output_type(parameters)}, *({**(leaf.settings or {})} for leaf in leaves)
        ),
    )


def _output_type(parameters: ModelRequestParameters) -> str:
    """Return "text" if the answer may be a plain text, else the form that the model is bound to."""
    is_free = parameters.allow_text_output and parameters.output_mode in ("text", "tool")
    return "text" if is_free else parameters.output_mode


def request_in(ctx: RunContext[Any], messages: list[ai.ModelMessage]) -> ModelRequestContext:
    """Return a request with these messages, as a run that has none yet would make it."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    instructions = next((one.instructions for one in reversed(messages) if isinstance(one, ai.ModelRequest)), None)
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
        found: list[Any] = [part for part in results if part.tool_kind in ("tool-search", "capability-load")]
        if found and isinstance(message, ai.ModelRequest):
            session.pin(replace(message, parts=found), store=False)
        elif found and any(isinstance(part, ai.TextPart | ai.ToolCallPart) for part in message.parts):
            # A digest leaves out the provider's own tool results: other parts identify the response.
            session.pin(message, store=False)


# -- recovery


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
            self.messages[:] = self.session.to_store(view)

    def prepare(
        self, view: list[ai.ModelMessage], model: Model[Any], parameters: ModelRequestParameters
    ) -> list[ai.ModelMessage]:
        """Return another view as the framework prepares it, with the messages that later capabilities added to the request only."""
        known = {id(message) for message in (*view, *self.view, *self.messages)}
        return _prepare([*view, *(message for message in self.sent if id(message) not in known)], model, parameters)


class _Sent(NamedTuple):
    """A request as its model was asked, without its messages."""

    model: Model[Any]
    settings: ModelSettings | None
    parameters: ModelRequestParameters


def _prepare(
    messages: list[ai.ModelMessage], model: Model[Any], parameters: ModelRequestParameters
) -> list[ai.ModelMessage]:
    """Return messages as the framework prepares them: it repairs them, rewrites them for the model, and repairs them again."""
    return ai.repair_messages(model.prepare_messages(ai.repair_messages(messages), parameters))


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
        if is_continuation(messages):
            return await send(messages)
        turn = self._turn or self._open_single_turn(messages, settings, parameters)
        name, window = leaf_models(self.wrapped)[0].model_name, self.wrapped.context_window
        told = {**(turn.options.get("request") or {}), _SENT: _Sent(self.wrapped, settings, parameters)}
        options: CallOptions = {**turn.options, "model": name, "context_window": window, "request": told}

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


# -- summaries


def summarizer(model: Model[Any] | str) -> Summarizer:
    """Return a summarizer that asks this model, for a controller that several frameworks or agents share.

    Inside a run of an agent with `Compaction`, its usage counts in that run, within the run's limits; not that of a summary in the
    background.

    Args:
        model: One of pydantic-ai's models, or the name of one, such as "openai:gpt-5.4-mini", which is looked up at each summary.

    Raises:
        ConfigurationError: the model cannot write text, or pydantic-ai does not know the provider in the name.
    """
    check_writer(model)

    async def ask(request: SummaryRequest, limit: int) -> Summary:
        return await ask_model(model, current_run(model), request.system, request.prompt, limit)

    return with_reasoning_room(ask)


def in_place(model: Model[Any] | str) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call where that costs less than a
    transcript and fits; otherwise, and once if the answer is no summary, a model is asked as by `summarizer(model)`. Its usage
    counts in the run too.

    Args:
        model: As in `summarizer`: for the summaries by a transcript.
    """
    return in_place_or(summarizer(model))


def in_place_or(by_transcript: Summarizer) -> Summarizer:
    """Return a summarizer that asks in place by the last call, and otherwise as the given one."""

    async def ask(live: LiveCall, request: SummaryRequest) -> ai.ModelResponse:
        sent = (live.request or {}).get(_SENT)
        if not isinstance(sent, _Sent):
            raise SummaryRefusedError("the last call was sent by a worker of a durable workflow")
        limit = request.max_tokens + REASONING_TOKENS
        settings: ModelSettings = {**(sent.settings or ModelSettings()), "max_tokens": limit}
        run = current_run(sent.model)
        _limits(run).check_before_request(run.usage)
        prepared = _prepare([*live.messages], sent.model, sent.parameters)
        response = await sent.model.request(prepared, settings, sent.parameters)
        run.usage.requests += 1
        run.usage.incr(response.usage)
        return response

    return ask_in_place(ask, _read_text, by_transcript)


def _read_text(response: ai.ModelResponse) -> Summary:
    return summary_of(PydanticAIFormat().read(response)[0], response.finish_reason)


def check_writer(model: Model[Any] | str) -> None:
    """Check that a model can write summaries. One that is named is made at the first summary, since it needs its provider's key.

    Raises:
        ConfigurationError: as `summarizer`.
    """
    if isinstance(model, str) and model != "test":
        try:
            infer_provider_class(parse_model_id(model)[0] or "")
        except ImportError:
            pass  # the provider is known and its client is not installed, as the first summary will say
        except ValueError as error:
            raise ConfigurationError(
                f"summarizer={format_name(model)} names no provider that pydantic-ai knows: "
                'write it as "openai:gpt-5.4-mini", or give the model'
            ) from error
    elif not isinstance(model, str) and not writes_text(model):
        raise ConfigurationError(
            f"{getattr(model, 'model_name', type(model).__name__)!r} cannot write a summary: give one of pydantic-ai's models "
            'that answer with text, or its name, such as "openai:gpt-5.4-mini"'
        )


@contextmanager
def charge_to(ctx: RunContext[Any] | None) -> Generator[None]:
    """Count the usage of summaries inside this context in the run, if there is one."""
    token = _RUN.set(ctx)
    try:
        yield
    finally:
        _RUN.reset(token)


def current_run(model: Any) -> RunContext[Any]:
    """Return the run that a summary is for, with the model that writes it; outside a run, a context of its own."""
    return replace(_RUN.get() or RunContext[Any](deps=None, model=model, usage=RunUsage()), model=model)


async def ask_model(
    model: Model[Any] | str, run: RunContext[Any], system: str, prompt: str, max_tokens: int
) -> Summary:
    """Ask a model once, in a separate run whose events do not reach the user's handlers; the usage counts in `run`."""
    agent = Agent(model, name="compaction_summary", instructions=system, retries=0)
    result = await agent.run(
        prompt,
        model_settings=ModelSettings(max_tokens=max_tokens),
        usage=run.usage,
        usage_limits=_limits(run),
        conversation_id=run.conversation_id,
    )
    return summary_of(PydanticAIFormat().read(result.response)[0], result.response.finish_reason, limit=max_tokens)


def _limits(run: RunContext[Any]) -> UsageLimits:
    limits = run.usage_limits or UsageLimits(request_limit=None)
    if limits.request_limit is None:
        return limits
    # The framework has allowed the request that waits for the summary: it needs one of those that are left.
    return replace(limits, request_limit=max(0, limits.request_limit - 1))


# -- the provider's own compaction, which pydantic-ai's models ask for, and send back with its header


def native_summaries(request: ModelRequestContext) -> NativeSummaries | None:
    """Return the summarizer by which the model of a request compacts; None if it cannot."""
    leaves = leaf_models(request.model)
    if len(leaves) != 1 or not _compacts(leaves[0]):
        return None

    async def ask(live: LiveCall, asked: SummaryRequest) -> ai.ModelResponse:
        run, settings = current_run(request.model), request.model_settings or ModelSettings()
        _limits(run).check_before_request(run.usage)
        limit = max(NATIVE_TOKENS, positive(settings.get("max_tokens")) or 0)
        whole = replace(request, messages=[*live.messages], model_settings={**settings, "max_tokens": limit})
        response = await request.model.compact_messages(whole, instructions=_instructions(issuer, live, asked))
        run.usage.requests += 1
        run.usage.incr(response.usage)
        return response

    issuer = Issuer(_PROVIDERS[leaves[0].system], str(leaves[0].base_url).rstrip("/"))
    return NativeSummaries(issuer, ask, _read_summary, form="")


def _compacts(model: Model[Any]) -> bool:
    profile = cast("Mapping[str, object]", model.profile)
    can = model.system != "anthropic" or bool(profile.get("anthropic_supports_on_demand_compaction"))
    return can and model.system in _PROVIDERS and type(model).compact_messages is not Model.compact_messages


def _instructions(issuer: Issuer, live: LiveCall, asked: SummaryRequest) -> str | None:
    """Return the instructions of a compaction: a part of Anthropic's prompt; in place of the agent's own for OpenAI."""
    if issuer.provider == "anthropic":
        return "\n\n".join(filter(None, (asked.form, asked.instructions, asked.focus))) or None
    lines = f"If you compact the conversation: {asked.instructions}" if asked.instructions else None
    focus = f"If you compact the conversation, pay most attention to: {asked.focus}" if asked.focus else None
    return "\n\n".join(filter(None, (f"{live.system}", lines, focus))) if lines or focus else None


def _read_summary(response: ai.ModelResponse, issuer: Issuer) -> Summary:
    (part,) = (part for part in response.parts if isinstance(part, ai.CompactionPart))
    details, usage = part.provider_details or {}, counts_of(response.usage.input_tokens, response)
    if issuer.provider == "anthropic":
        block = {"type": "compaction", "content": part.content, "signature": details.get("signature")}
        return read_block(block, issuer, usage, response.finish_reason)
    item = {"type": "compaction", "id": part.id, "encrypted_content": details["encrypted_content"]}
    return Summary(text="", usage=usage, native=NativeItems(issuer, (item,), response.usage.output_tokens))
