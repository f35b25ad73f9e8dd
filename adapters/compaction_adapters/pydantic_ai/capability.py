"""`Compaction`, the capability: the view of each request, and the run it is for; and `history_processor`."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from operator import is_
from typing import Any, TypeAlias, Unpack, cast
from weakref import WeakKeyDictionary

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, durable_operation
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.tools import AgentDepsT

from compaction_adapters.kit import ControllerKeywords, Settings, controller_from, settings_from
from compaction_adapters.pydantic_ai.events import tell_run
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat, usage_of
from compaction_adapters.pydantic_ai.recovery import RecoveringModel, Turn, is_continuation
from compaction_adapters.pydantic_ai.requests import (
    RunSessions,
    model_name,
    named_by,
    options_in,
    options_of,
    pin_evidence,
    replaced_by_provider,
    request_model,
)
from compaction_adapters.pydantic_ai.summarizing import ask_model, counted_in, summarizer, writes_text
from compaction_hooks import (
    CallOptions,
    CompactionController,
    CompactionSession,
    ContextOverflowError,
    Summarizer,
    Summary,
    SummaryRequest,
    TokenEstimator,
    arguments,
)
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import EventHandler
from compaction_hooks.stores import RecordStore

_LastCalls: TypeAlias = WeakKeyDictionary[CompactionSession[ModelMessage], tuple[object, CallOptions]]
"""By session, the model that was last called, and what counted beside the messages."""

_KEYWORDS = ControllerKeywords.__optional_keys__ - {"on_event"}
"""Those of a controller that are fields here under their own names."""


@arguments.validate({}, {"on_event": "on_compaction"})
@dataclass
class Compaction(AbstractCapability[AgentDepsT]):
    """Keeps a conversation inside the model's context window, and recovers when the provider says that it is too long.

    What is sent is a view: system prompt, summary, the current request and the recent messages. The run's own messages stay whole,
    so `all_messages()` and `new_messages()` tell everything that was said. The conversation goes by its `conversation_id`:
    what was summarised in one run is known in the next one, in this process or, with a `store`, in another. In a durable workflow
    each run is on its own, so that its replay does the same again; there, give neither a store nor a controller.

        agent = Agent("openai:gpt-5", capabilities=[Compaction()])
    """

    controller: CompactionController[Any] | None = None
    """A controller, shared with other agents and frameworks or not, whatever its format; or none, and its keywords below."""

    _: KW_ONLY

    persist: bool = False
    """Whether the run's messages become the view. `all_messages()` and `conversation` are small then, and right to store;
    `new_messages()` cannot be: it holds neither the summary nor what was summarised of this run."""

    summarizer: Summarizer | Model[Any] | str | None = None
    """A model or the name of one, or a callable. Without, the model of the request itself writes the summaries."""

    model: str | None = None
    """The name whose context window is meant where the framework knows none for the model of a request."""

    context_window: int | None = None
    """The context window in tokens, input and output together. Without, that of the model of each request."""

    settings: Settings | None = None
    """The policy, or one for each model."""

    store: RecordStore | None = None
    """Where records live between processes."""

    on_compaction: EventHandler | Sequence[EventHandler] = ()
    """The controller's `on_event`, which is the name of a hook here. Runs emit its events as `CompactionStatusEvent` too."""

    estimator: TokenEstimator | None = None
    """Sizes texts and messages."""

    summary_prompt: str | None = None
    """Says how a summary is written, in place of our headings: short for the setting of that name."""

    id: str | None = "compaction_hooks"
    """Part of the names of durable operations, so it must not change while workflows run."""

    _sessions: RunSessions = field(init=False, repr=False, compare=False)
    _focus: str | None = field(default=None, init=False, repr=False)
    _session: CompactionSession[ModelMessage] | None = field(default=None, init=False, repr=False, compare=False)
    _turn: Turn | None = field(default=None, init=False, repr=False, compare=False)
    _seen: int = field(default=0, init=False, repr=False, compare=False)
    _last_calls: _LastCalls = field(default_factory=_LastCalls, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the controller.

        Raises:
            ConfigurationError: a controller and its keywords are given, or the summariser cannot write text.
        """
        keywords: dict[str, object] = {name: getattr(self, name) for name in _KEYWORDS}
        keywords["on_event"] = self.on_compaction or None
        if isinstance(self.summarizer, Model):
            summarizer(self.summarizer)  # which checks that it writes text
        if self.controller is None and isinstance(self.summarizer, Model | str):
            del keywords["summarizer"]
        given = {name: value for name, value in keywords.items() if value is not None}
        # The names and types are those of the fields above.
        controller = controller_from(
            self.controller, cast("ControllerKeywords", given), PydanticAIFormat(), taker=Compaction, sees_model=True
        )
        self._sessions = RunSessions(controller)

    @classmethod
    def from_spec(
        cls,
        *,
        persist: bool = False,
        summarizer: str | None = None,
        model: str | None = None,
        context_window: int | None = None,
        settings: Mapping[str, object] | None = None,
        id: str | None = "compaction_hooks",
    ) -> Compaction[Any]:
        """Return the capability for an agent that is written down in YAML or JSON.

        Args:
            summarizer: The name of a model.
            settings: The fields of `CompactionSettings`; or for each model, and "*" for all others, such fields.
        """
        return cls(
            persist=persist,
            summarizer=summarizer,
            model=model,
            context_window=context_window,
            settings=None if settings is None else settings_from(settings),
            id=id,
        )

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Compaction[AgentDepsT]:  # noqa: ARG002 - the framework's signature
        """Return a copy with the state of one run."""
        mine = copy.copy(self)
        mine._session, mine._turn, mine._seen = None, None, 0
        return mine

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the view in the place of the request's messages."""
        self._turn = None
        messages, model = list(request_context.messages), request_context.model
        if is_continuation(messages):
            return request_context
        parameters = request_context.model_request_parameters
        options = options_of(model, messages, request_context.model_settings, parameters, ctx.is_tool_available)
        self._session = self._session or self._sessions.of(ctx, messages)
        pin_evidence(self._session, messages[self._seen :] if self._seen < len(messages) else messages)
        self._seen = len(messages)
        is_own = len(messages) == len(ctx.messages) and all(map(is_, messages, ctx.messages))
        if self.persist and not is_own:
            whole = await self._open_turn(ctx, self._session, list(ctx.messages), model, options, ctx.messages)
            whole.keep(whole.view)
        own = ctx.messages if is_own else None
        turn = self._turn = await self._open_turn(ctx, self._session, messages, model, options, own)
        if turn.view is not turn.messages:
            request_context.messages = turn.everything
            turn.keep(turn.view)
        return request_context

    async def prepare_model_request(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - the framework's signature
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """Note what the request holds once every capability has had its say."""
        if self._turn is not None:
            self._turn.sent = list(request_context.messages)
        return request_context

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any] | None:
        """Return the model with its second attempt."""
        if not self._sessions.controller.settings_for(model_name(model, [])).compact_on_overflow:
            return None
        return RecoveringModel(model, self._turn, self._sessions)

    async def after_model_request(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - the framework's signature
        *,
        request_context: ModelRequestContext,  # noqa: ARG002 - the framework's signature
        response: ModelResponse,
    ) -> ModelResponse:
        """Tell the session what the provider counted."""
        if self._turn is not None:
            self._turn.session.report_usage(usage_of(response), model=response.model_name)
        return response

    # -- between runs, and as a tier of others' compaction

    def session(self, conversation_id: str) -> CompactionSession[ModelMessage]:
        """Return the session of a conversation: `state()`, `pin()`, `undo()`, `history()`, records, in a run and between runs.

        In a new process that has a store, `load()` it first.
        """
        return self._sessions.open(conversation_id)

    async def compact(
        self, messages: list[ModelMessage], ctx: RunContext[AgentDepsT] | None = None
    ) -> list[ModelMessage]:
        """Compact whatever the size, and return the messages to keep: the shape of pydantic-ai-harness's strategies.

        Messages that cannot be made to fit come back as they are. Later runs with the whole history know the summary too.

        Args:
            ctx: The run. None between runs: then the messages name the conversation, and its summary is written by the model given
                as `summarizer`, else by the one that the conversation was last answered by.

        Raises:
            ConfigurationError: there is no `ctx`, and no message names a conversation.
        """
        model: object
        if ctx is not None:
            session, model = self._sessions.of(ctx, messages), ctx.model
            options = self._in_run(ctx, model, options_in(ctx, messages))
        else:
            name = named_by(messages)
            if name is None:
                raise ConfigurationError(
                    "compact(messages) needs the name of the conversation, which the messages of a run carry: "
                    "use compaction.session(conversation_id).compact(messages), or give the run as ctx"
                )
            session = self.session(name)
            model, options = self._last_calls.get(session, (None, CallOptions()))
            writer = self._writer(model)
            options = options.copy()
            options["summarizer"] = None if writer is None else summarizer(writer)
        kept = replaced_by_provider(messages, model)
        pin_evidence(session, messages)
        try:
            with counted_in(ctx):
                result = await session.compact(messages[kept:], focus=self._focus, **options)
        except ContextOverflowError:
            return messages
        return [*messages[:kept], *result.messages]

    def with_focus(self, focus: str) -> Compaction[AgentDepsT]:
        """Return a copy whose `compact` asks for a summary that pays attention to this."""
        mine = copy.copy(self)
        mine._focus = focus
        return mine

    async def view(self, messages: list[ModelMessage], ctx: RunContext[AgentDepsT]) -> list[ModelMessage]:
        """Return what to send for these messages, compacted when that is due; the very list while nothing was compacted."""
        if is_continuation(messages):
            return messages
        session = self._sessions.of(ctx, messages)
        pin_evidence(session, messages)
        turn = await self._open_turn(ctx, session, messages, ctx.model, options_in(ctx, messages))
        return messages if turn.view is turn.messages else turn.everything

    # -- parts

    async def _open_turn(
        self,
        ctx: RunContext[AgentDepsT],
        session: CompactionSession[ModelMessage],
        messages: list[ModelMessage],
        model: object,
        options: CallOptions,
        own: list[ModelMessage] | None = None,
    ) -> Turn:
        self._last_calls[session] = model, options
        options = self._in_run(ctx, model, options)
        kept = replaced_by_provider(messages, model)
        head, rest = messages[:kept], messages[kept:]
        with counted_in(ctx):
            view = await session.transform_context(rest, **options) if rest else rest
        return Turn(ctx, session, options, rest, view, head=head, own=own, persist=self.persist)

    def _writer(self, model: object) -> Model[Any] | str | None:
        """The model that writes summaries: the one given, else that of the request if it writes text."""
        if isinstance(self.summarizer, Model | str):
            return self.summarizer
        return request_model(model) if writes_text(model) else None

    def _in_run(self, ctx: RunContext[AgentDepsT], model: object, options: CallOptions) -> CallOptions:
        """The options, with whom to ask for a summary and whom to tell."""

        async def ask(request: SummaryRequest) -> Summary:
            run = replace(ctx, model=request_model(model) or ctx.model)  # the model of this request
            return await self._summarize(run, request.system, request.prompt, request.max_tokens)

        return {**options, "on_event": tell_run(ctx), "summarizer": None if self._writer(model) is None else ask}

    @durable_operation("summarize")
    async def _summarize(self, ctx: RunContext[AgentDepsT], system: str, prompt: str, max_tokens: int) -> Summary:
        """Ask the model that writes summaries."""
        return await ask_model(cast("Model[Any] | str", self._writer(ctx.model)), system, prompt, max_tokens, ctx)


HistoryProcessor: TypeAlias = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]


def history_processor(
    controller: CompactionController[Any] | None = None, **keywords: Unpack[ControllerKeywords]
) -> HistoryProcessor:
    """Return a processor for `Agent(capabilities=[ProcessHistory(history_processor(...))])`.

    `ProcessHistory` makes the run's messages what a processor returns, as `Compaction(persist=True)` does, and it cannot send a
    request again: an overflow that the provider reports ends the run. `Compaction` does both better.

    Args:
        controller: A controller, shared or not, whatever its format; or none, and its keywords here.

    Raises:
        ConfigurationError: a controller and its keywords are given.
    """
    made = controller_from(controller, keywords, PydanticAIFormat(), taker=history_processor, sees_model=True)
    compaction: Compaction[Any] = Compaction(made)

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        return await compaction.view(messages, ctx)

    return process
