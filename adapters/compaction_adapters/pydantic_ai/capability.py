"""The capability `Compaction`, which makes the view of each request of a run, and `history_processor`."""

# ruff: noqa: ARG002 - the framework gives its hooks more than each needs

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import is_
from typing import Any, Final, TypeVar, Unpack, cast, overload
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, durable_operation
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import CapabilityEvent, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import FunctionToolset

from compaction_adapters.kit import (
    ByHand,
    CommonKeywords,
    ControllerKeywords,
    Flow,
    Sessions,
    Status,
    controller_from,
    fields_of,
    model_tools,
    run_async,
    run_in_loop,
    settings_from,
    status_of,
    with_reasoning_room,
)
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat, check_list, usage_of
from compaction_adapters.pydantic_ai.models import (
    RecoveringModel,
    Session,
    Turn,
    ask_model,
    charge_to,
    check_writer,
    current_run,
    in_place_or,
    is_continuation,
    native_summaries,
    options_of,
    pin_evidence,
    request_in,
    writes_text,
)
from compaction_adapters.pydantic_ai.models import summarizer as summarizer_by
from compaction_adapters.pydantic_ai.tools import make_toolset
from compaction_hooks import (
    CallOptions,
    CompactionController,
    CompactionEvent,
    CompactionResult,
    ContextOverflowError,
    Summarizer,
    Summary,
    SummaryRequest,
)
from compaction_hooks.errors import ConfigurationError

R = TypeVar("R")
_NOT_PERSISTED: Final = {
    "recall": "recall reads the run's own messages, which persist replaces",
    "native": "persist puts the text of a summary into the run's own messages, and the provider's part would never be sent",
}

_BY_NAME: Final = 'compact(messages, "thread-1")'


@dataclass(kw_only=True)
class CompactionStatusEvent(Status, CapabilityEvent, namespace="compaction_hooks", name="status"):
    """The start or end of a compaction, for `@agent.on_event(CompactionStatusEvent)` and all other event handlers.

    The fields are those of `compaction_adapters.kit.Status`.
    """


@dataclass(init=False, eq=False)  # the framework takes no other classes in specs
class Compaction(ByHand[ModelMessage, Sessions[ModelMessage]], AbstractCapability[AgentDepsT]):
    """Keeps a conversation inside the model's context window, and recovers when the provider says that it is too long.

    Each request sends a view: system prompt, summary, the current request and the recent messages. The run's own messages stay
    whole, so `all_messages()` and `new_messages()` have the full history. A conversation is identified by its `conversation_id`:
    the next run finds the summaries of the last one, in this process or, with a `store`, in another. In a durable workflow
    runs share nothing, so that a replay does the same again; there, give neither a store nor a controller nor `background`.

        agent = Agent("openai:gpt-5.2", capabilities=[Compaction()])

    Two on one agent are one, with the arguments of both.

    Args:
        controller: A controller, shared with other agents and frameworks or not, of any format. None: make one from the keywords.
        persist: Whether to replace the run's messages with the view. `all_messages()` and `conversation` are then small and
            complete, so store these; `new_messages()` is not: it lacks the summary and the summarized messages of this run.
        summarizer: A model or the name of one, or a callable. None: the model of each request writes the summaries.
        model: The name of a model whose context window applies if the framework does not know the window of a request's model.
        native: Whether Anthropic or OpenAI itself writes the summaries of requests to its models if it can and no `summarizer` is
            given: the view then begins with its own part. Not in durable workflows, and not with `persist`, which keeps texts.
        recall: Whether the agent gets a tool by which the model reads again what its views leave out. Not with `persist`, which
            leaves the run no other messages.
        compact: Whether the agent gets a tool by which the model asks for a compaction.
        id: Part of the names of durable operations, so it must not change while workflows run.
        **keywords: The controller's own: see `CommonKeywords` of the kit. Runs emit the events as `CompactionStatusEvent` too.

    Raises:
        ConfigurationError: both a controller and keywords are given, the summarizer cannot write text, or two arguments contradict
            one another.
    """

    # Of a run, or of a copy: no fields.
    _session = cast("Session | None", None)
    _turn = cast("Turn | None", None)
    _searched = 0
    _focus = cast("str | None", None)

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        persist: bool = False,
        summarizer: Summarizer | Model[Any] | str | None = None,
        model: str | None = None,
        native: bool = False,
        recall: bool = False,
        compact: bool = False,
        id: str | None = "compaction_hooks",
        **keywords: Unpack[CommonKeywords],
    ) -> None:
        for name, is_given in (("recall", recall), ("native", native)):
            if is_given and persist:
                raise ConfigurationError(f"{name}=True and persist=True exclude one another: {_NOT_PERSISTED[name]}")

        self.persist, self.native, self.recall, self.id = persist, native, recall, id
        self._offered = model_tools(recall=recall, compact=compact)
        own = {
            "controller": controller,
            "persist": persist,
            "native": native,
            "recall": recall,
            "compact": compact,
            "id": id,
        }
        given = {"summarizer": summarizer, "model": model, **keywords}
        self._stated: dict[str, Any] = {
            name: value for name, value in {**own, **given}.items() if value is not None and value is not False
        }

        self._asked = summarizer if isinstance(summarizer, Model | str) else None
        if self._asked is not None:
            check_writer(self._asked)
            # Each run passes its own, which asks this model, and in the background no run is left: those are of the controller.
            is_detached = controller is None and bool(keywords.get("background"))
            given["summarizer"] = summarizer_by(self._asked) if is_detached else controller and summarizer

        # The names and types are those of the arguments.
        stated = cast("ControllerKeywords", {name: value for name, value in given.items() if value is not None})
        chosen = controller_from(controller, stated, PydanticAIFormat(), taker=type(self), sees_model=True)
        self._sessions = Sessions(chosen, PydanticAIFormat())

        # Not that of a copy: the options of a call are kept, and must not keep its run.
        self._asker = self._make_asker

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> Compaction[AgentDepsT]:
        """Return one with the arguments of all; of an argument that two state, the later one counts."""
        every = cast("Sequence[Compaction[AgentDepsT]]", capabilities)
        return cls(**{name: value for one in every for name, value in one._stated.items()})

    @classmethod
    def from_spec(
        cls,
        *,
        persist: bool = False,
        summarizer: str | None = None,
        model: str | None = None,
        context_window: int | None = None,
        settings: Mapping[str, object] | None = None,
        native: bool = False,
        recall: bool = False,
        compact: bool = False,
        id: str | None = "compaction_hooks",
    ) -> Compaction[Any]:
        """Return the capability for an agent that is defined in YAML or JSON.

        Args:
            summarizer: The name of a model.
            settings: The fields of `CompactionSettings`; or such fields by model, with "*" for all other models.
        """
        return cls(
            persist=persist,
            summarizer=summarizer,
            model=model,
            context_window=context_window,
            settings=None if settings is None else settings_from(settings),
            native=native,
            recall=recall,
            compact=compact,
            id=id,
        )

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Compaction[AgentDepsT]:
        """Return a copy, whose state is that of one run."""
        return copy.copy(self)

    def get_toolset(self) -> FunctionToolset[AgentDepsT] | None:
        """Return our tools, if the agent is to have any."""
        return make_toolset(
            self._offered, lambda ctx: self._session_in(ctx, ctx.messages), self.id or "compaction_hooks"
        )

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replace the request's messages with the view."""
        self._turn = None
        messages, own = request_context.messages, ctx.messages
        if is_continuation(messages):
            return request_context

        shows_run = len(messages) == len(own) and all(map(is_, messages, own))
        if self.persist and not shows_run:
            # Another capability changed this request only: the run's own messages are compacted apart from it.
            await self._open_turn(ctx, request_context, own)
        turn = self._turn = await self._open_turn(ctx, request_context, own if shows_run else [*messages])
        if turn.view != messages:
            request_context.messages = turn.view
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Remember the request's messages after the changes of all other capabilities."""
        if self._turn is not None:
            self._turn.sent = [*request_context.messages]
        return request_context

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Return a model that recovers from overflows and from refused reasoning; a fallback model whose candidates do.

        Each candidate gets a view for its own window.
        """
        if not isinstance(model, FallbackModel):
            return RecoveringModel(model, self._turn, self._sessions)
        fallback = copy.copy(model)
        fallback.models = [self.get_wrapper_model(candidate) for candidate in model.models]
        return fallback

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Report the provider's usage to the session."""
        if self._turn is not None:
            self._turn.session.report_usage(usage_of(response), model=response.model_name)
        return response

    # -- between runs, and as a strategy of pydantic-ai-harness

    def session(self, conversation_id: str) -> Session:
        """Return the session of a conversation: `state()`, `pin()`, `undo()`, `history()`, records, in a run and between runs.

        In a new process with a store, `load()` it first.
        """
        return self._sessions.open(conversation_id)

    @overload  # type: ignore[override] # the first form is older than the base class, and that of the harness's strategies
    async def compact(
        self, messages: list[ModelMessage], ctx: RunContext[AgentDepsT] | None = None
    ) -> list[ModelMessage]: ...

    @overload
    async def compact(
        self,
        messages: Sequence[ModelMessage],
        conversation_id: str,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[ModelMessage]: ...

    async def compact(  # type: ignore[misc] # the second argument has a name in each form
        self,
        messages: Sequence[ModelMessage],
        ctx: RunContext[AgentDepsT] | str | None = None,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        *,
        conversation_id: str | None = None,
        **options: Unpack[CallOptions],
    ) -> list[ModelMessage] | CompactionResult[ModelMessage]:
        """Compact messages of any size. Later runs with the full history use the summary too.

        `compact(messages, "thread-1")` returns a `CompactionResult`, as in all adapters; its other arguments are those of
        `ByHand.compact`. `compact(messages)` and `compact(messages, ctx)` return the messages to keep, as strategies of
        pydantic-ai-harness do, and messages that cannot be made to fit unchanged.

        Args:
            ctx: The run, or the id of the conversation. None: the messages name it. Without a run, its summary is written by the
                model given as `summarizer`, else by the model of the conversation's last call.

        Raises:
            ConfigurationError: no message names a conversation, an argument needs its id, or one is of the wrong type.
            FormatError: a message is none of pydantic-ai's.
            ContextOverflowError: with an id, if the messages cannot be made to fit the window.
        """
        if not isinstance(ctx, str | RunContext | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{type(ctx).__name__} is neither an id nor a run's context: write {_BY_NAME}")
        name = ctx if isinstance(ctx, str) else conversation_id
        if name is not None:
            return await super().compact(messages, name, keep_recent_tokens, focus or self._focus, **options)
        if keep_recent_tokens is not None or focus is not None or options:
            raise ConfigurationError(f"compact(messages) takes no other arguments: name the conversation, {_BY_NAME}")
        return await self._compact_list(cast("list[ModelMessage]", messages), cast("RunContext[Any] | None", ctx))

    async def _compact_list(
        self, messages: list[ModelMessage], ctx: RunContext[AgentDepsT] | None
    ) -> list[ModelMessage]:
        """Return the messages to keep."""
        check_list(messages)
        if ctx is None:
            name = _find_conversation(messages)
            if name is None:
                raise ConfigurationError(
                    "compact(messages) needs the name of the conversation, which the messages of a run carry: "
                    f"{_BY_NAME}, or give the run as ctx"
                )
            session = self._session_of(name, messages)
            options = self._options_by_hand(session)
        else:
            session, options = self._session_in(ctx, messages), self._options(ctx, request_in(ctx, messages))
            pin_evidence(session, messages)

        try:
            with charge_to(ctx):
                return (await session.compact(messages, focus=self._focus, **options)).messages
        except ContextOverflowError:
            return messages

    @overload  # type: ignore[override]
    def compact_sync(self, messages: list[ModelMessage]) -> list[ModelMessage]: ...

    @overload
    def compact_sync(
        self,
        messages: Sequence[ModelMessage],
        conversation_id: str,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[ModelMessage]: ...

    def compact_sync(
        self,
        messages: Sequence[ModelMessage],
        conversation_id: str | None = None,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> list[ModelMessage] | CompactionResult[ModelMessage]:
        """As `compact` between runs, for programs that use `run_sync`: in the event loop that it uses, where clients of models
        have their connections.
        """
        compact: Any = self.compact  # of either form
        result: list[ModelMessage] | CompactionResult[ModelMessage] = run_in_loop(
            compact(messages, conversation_id, keep_recent_tokens, focus, **options)
        )
        return result

    def _options_by_hand(self, session: Session) -> CallOptions:
        # Before the first call no model is known but the one given as `summarizer`.
        return self._sessions.last_call(session) or CallOptions(summarizer=self._asker(None))

    def _session_of(self, conversation_id: str | None, messages: Sequence[ModelMessage]) -> Session:
        session = self._find_session(conversation_id)
        check_list(messages)
        pin_evidence(session, messages)
        return session

    def _run_sync(self, flow: Flow[R]) -> R:
        return run_in_loop(run_async(flow))

    def with_focus(self, focus: str) -> Compaction[AgentDepsT]:
        """Return a copy whose `compact` asks for a summary with this focus."""
        clone = copy.copy(self)
        clone._focus = focus
        return clone

    # -- parts

    def _session_in(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> Session:
        """Return the session of a run, which keeps it to its end; outside a run, that of its context.

        A conversation is named by the framework's own id or the newest id in the messages. Without either, the session belongs to
        the run; outside a run it is used once. In a durable workflow it always belongs to the run: a replay must not find the
        summaries that the first execution left in memory, or it would not do the same.

        Raises:
            ConfigurationError: the workflow is durable and `background=True`: such a summary is begun by the time that calls take.
        """
        if ctx.in_durable_context and self.controller.background:
            raise ConfigurationError(
                "background=True: in a durable workflow no summary can be begun beside the run, since a replay would begin it "
                "elsewhere; leave it out"
            )
        if self._session is not None:
            return self._session
        known = ctx.conversation_id or _find_conversation(messages) or ctx.run_id
        if known is not None and not ctx.in_durable_context:
            return self.session(known)
        return self._sessions.open_once(f"{known or uuid4()}:{ctx.run_id}")

    async def _open_turn(self, ctx: RunContext[Any], given: ModelRequestContext, messages: list[ModelMessage]) -> Turn:
        session = self._session = self._session_in(ctx, messages)
        # The last message may be another object in the next request, with other instructions.
        pin_evidence(session, messages[self._searched :] if self._searched < len(messages) else messages)
        self._searched = len(messages) - 1
        if self.recall:
            session.recall_tool(lambda: messages)

        # A copy: afterwards the framework wraps its model in ours, which would wait for itself.
        options = self._options(ctx, replace(given, messages=[]))
        self._sessions.remember_call(session, options)
        with charge_to(ctx):
            view = await session.transform_context([*messages], **options)

        turn = Turn(ctx, session, options, messages, view, is_persisted=self.persist and messages is ctx.messages)
        turn.persist_view(view)
        return turn

    def _options(self, ctx: RunContext[Any], request: ModelRequestContext) -> CallOptions:
        """Return the options of a request, with the run's event handler and capabilities, and its summarizer."""
        names: list[str] = []
        if ctx.root_capability is not None:
            ctx.root_capability.apply(lambda capability: names.append(type(capability).__name__))

        by_provider = self.native and self._asked is None and not ctx.in_durable_context
        options = options_of(
            request.model, request.model_settings, request.model_request_parameters, ctx.is_tool_available
        )

        options["on_event"] = partial(_tell_run, ctx)
        options["summarizer"] = (native_summaries(request) if by_provider else None) or self._asker(request.model)
        if "OpenAICompaction" in names:  # OpenAI then compacts between requests, which no option of a request shows
            options["request"] = {**(options.get("request") or {}), "compaction": "OpenAICompaction"}
        return options

    def _make_asker(self, model: object) -> Summarizer | None:
        """Return a summarizer that asks the model given as `summarizer`, else this one if it writes text; None without any."""

        async def ask(asked: SummaryRequest, limit: int) -> Summary:
            return await self._summarize(current_run(model), asked.system, asked.prompt, limit)

        if self._asked is not None:
            return with_reasoning_room(ask)
        return in_place_or(with_reasoning_room(ask)) if writes_text(model) else None

    @durable_operation("summarize")
    async def _summarize(self, ctx: RunContext[AgentDepsT], system: str, prompt: str, max_tokens: int) -> Summary:
        return await ask_model(self._asked or cast("Model[Any]", ctx.model), ctx, system, prompt, max_tokens)


def _find_conversation(messages: Sequence[ModelMessage]) -> str | None:
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


async def _tell_run(ctx: RunContext[Any], event: CompactionEvent) -> None:
    """Emit an event of the controller in a run's stream, and a span for each compaction.

    The span has the name that pydantic-ai-harness gives it, so that traces of both look the same.
    """
    status = status_of(event)
    if status.stage == "finished":
        figures = {**fields_of(event), "strategy": "compaction_hooks"}
        told = {f"compaction.{name}": value for name, value in figures.items() if isinstance(value, str | int | float)}
        with ctx.tracer.start_as_current_span("compact_messages") as span:
            span.set_attributes({**told, "gen_ai.conversation.compacted": True})
    if not ctx.in_durable_context:  # a replay must not depend on which handlers are attached
        with suppress(UserError):  # a context that the user made between two runs has no stream
            await ctx.emit(CompactionStatusEvent(**asdict(status)))


def history_processor(
    controller: CompactionController[Any] | None = None, **keywords: Unpack[ControllerKeywords]
) -> Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]:
    """Return a processor for `Agent(capabilities=[ProcessHistory(history_processor(...))])`.

    `ProcessHistory` replaces the run's messages with the processor's result, as `Compaction(persist=True)` does. It cannot send a
    request again: an overflow that the provider reports ends the run. Prefer `Compaction`.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """
    compaction = Compaction[Any](
        controller_from(controller, keywords, PydanticAIFormat(), taker=history_processor, sees_model=True)
    )

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        run = await compaction.for_run(ctx)
        return (await run.before_model_request(ctx, request_in(ctx, messages))).messages

    return process
