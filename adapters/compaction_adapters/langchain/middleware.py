"""`CompactionMiddleware`: compaction around the model call of an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Final, NotRequired, Unpack, cast

from langchain.agents.middleware.summarization import ContextSize
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ContextT,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ResponseT,
)
from langchain.agents.structured_output import AutoStrategy, OutputToolBinding, ProviderStrategy, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph import types

from compaction_adapters.kit import Flow, PolicyKeywords, Twin, controller_from, run, run_async
from compaction_adapters.langchain.sizes import Trigger, controller_keywords
from compaction_adapters.langchain_core import (
    FORMAT,
    CallArguments,
    Conversations,
    Task,
    ThreadMethods,
    in_place,
    list_tools,
    make_call,
    model_of_run,
    model_options,
    native_arguments,
    native_summarizer,
)
from compaction_adapters.langchain_core.channels import RecordsChannel
from compaction_hooks import CallOptions, CompactionController
from compaction_hooks.errors import ConfigurationError

_INTERNAL_CALLS: Final = "langchain.agents.middleware.internal_call_transformer"
"""A module that keeps a summary's tokens out of `run.messages` and `astream_events(version="v3")`; older versions have neither."""

CHANNEL: Final = "_compaction_records"


class CompactionState(AgentState[ResponseT]):
    """The part of an agent's state that the middleware adds, in no input, output or `values` event: records as plain JSON."""

    _compaction_records: NotRequired[Annotated[list[Mapping[str, object]], PrivateStateAttr, RecordsChannel]]


class CompactionMiddleware(ThreadMethods[Conversations], AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]):
    """Keeps an agent's conversation inside the context window of whichever model is called.

    The messages in the agent's state are not changed: each model call is sent a view of them. The record of a compaction, from
    which the view is made, is checkpointed in a private state channel (shown in the stream mode "updates" only). The record of a
    failed or interrupted call stays in memory, and in `store`, so that no summary is paid for twice. When a model rejects a request
    as too long, the view is compacted harder and sent once more, unless a token of the answer was streamed already. Status events
    go to the stream mode "custom".

    A thread is one conversation, and a subgraph has its own. A run without a thread is named by the beginning of its messages, so
    that the next run with them uses their summary.

    Place it before (outside) middleware that marks caches, and after (inside) `ModelFallbackMiddleware` and
    `ModelRetryMiddleware`, so that each further attempt is compacted for its own model. Additions of middleware inside to the
    system prompt are not counted beforehand, but learned from the provider's usage.

    Kept messages are the same objects as in the state. For a model that binds its thinking to the messages before it (the newest
    Claude models do), those from before the compaction are copies without their thinking; if another model refuses the thinking,
    the request is sent once more without it, and the thread continues without it.
    If the model or the call makes the server compact (`context_management`, `use_previous_response_id` ...), only overflows are
    recovered from. The kept answers of a compacted view are then copies without OpenAI's response id, since the provider would
    otherwise continue from the history it keeps.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        model: Writes the summaries, as a chat model or a name for `init_chat_model`. None: the model of the call.
        trigger: Compact above this size of the whole request: `("fraction", 0.8)` of the window of the model that is called,
            or `("tokens", n)`, or any of a list of these. None: as the settings say.
        keep: `("tokens", n)`: recent messages that are kept word for word. None: 20,000, at most 35 % of the window.
        recall: Whether the agent gets a tool by which the model reads again what its views leave out.
        compact: Whether the agent gets a tool by which the model asks for a compaction.
        native: Whether the provider itself writes the summaries of calls of `ChatAnthropic`, and of `ChatOpenAI` with the Responses
            API, if no model or summarizer is given: the view then begins with its items; calls of Anthropic have its beta header.
        name: The middleware's name in the graph. "SummarizationMiddleware" replaces the one of `deepagents.create_deep_agent`;
            with any other name both would compact.
        **keywords: The controller's own: see `PolicyKeywords` of the kit.

    Raises:
        ConfigurationError: a size is malformed or not supported (`("messages", n)`), two arguments contradict one another, or both
            a controller and keywords are given.
    """

    # Typed as the plain state, so that a list of this and other middleware has a type.
    state_schema = cast("type[AgentState[ResponseT]]", CompactionState)
    transformers = (import_module(_INTERNAL_CALLS).InternalCallTransformer,) if find_spec(_INTERNAL_CALLS) else ()
    # The span of the model call holds the conversation; that of the middleware need not.
    trace_policy = types.TracePolicy(process_inputs=types.omit_payload) if hasattr(types, "TracePolicy") else None

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        model: str | BaseChatModel | None = None,
        trigger: Trigger | None = None,
        keep: ContextSize | None = None,
        recall: bool = False,
        compact: bool = False,
        native: bool = False,
        name: str = "CompactionMiddleware",
        **keywords: Unpack[PolicyKeywords],
    ) -> None:
        super().__init__()
        if not name:
            raise ConfigurationError('name="" must not be empty: LangGraph names nodes and traces after it')
        translated = controller_keywords(model, trigger, keep, keywords)
        chosen = controller_from(controller, translated, FORMAT, taker=type(self), sees_model=True)
        self._name, self._native = name, native
        self._sessions = Conversations(chosen, CHANNEL, has_recall=recall)
        self._messages_key = "messages"
        self.tools = list_tools(self._sessions, self._messages_key, recall=recall, compact=compact)

    @property
    def name(self) -> str:
        """The middleware's name in the graph."""
        return self._name

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]],
    ) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
        """Make the model call with a view that fits.

        Raises:
            ModelContextOverflowError: no smaller view is valid, or the smaller one was rejected too; the provider's error is the
                cause.
        """
        return run(self._call_model(request, handler))

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]:
        """As `wrap_model_call`, for agents that are awaited."""
        return await run_async(self._call_model(request, handler))

    def _call_model(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], Any]
    ) -> Flow[ModelResponse[ResponseT] | ExtendedModelResponse[ResponseT]]:
        task = Task(ensure_config())
        messages = cast("list[BaseMessage]", request.messages)  # a list of its subclasses; never changed
        conversation = self._sessions.of(task, messages)
        options = _call_options(request, task, native=self._native)
        self._sessions.remember_call(conversation.session, options)

        def send(view: list[BaseMessage]) -> Twin:
            return Twin(handler, handler, _with_view(request, task, view))

        try:
            response = yield from make_call(conversation, send, options, _model_message)
        finally:
            update = self._sessions.keep(conversation)
        return ExtendedModelResponse(response, types.Command(update=update)) if update else response


def _model_message(response: ModelResponse[Any]) -> AIMessage | None:
    """Return the model's own message; None if middleware inside answered without one."""
    return next((message for message in response.result if isinstance(message, AIMessage)), None)


# -- the request of a call


def _call_options(request: ModelRequest[Any], task: Task, *, native: bool) -> CallOptions:
    """Return the options of a call: its model, its summarizer, everything that counts next to the messages, its event handler."""
    model, form = model_of_run(request.model, task.config), request.response_format
    tools, answers = [*request.tools], _answer_tools(form)

    prefix = [request.system_message] if request.system_message is not None else []
    sent = [*tools, *answers] if isinstance(form, ToolStrategy) else tools
    by_provider = native_summarizer(model, prefix, request.model_settings, sent) if native else None

    known = model_options(model, request.model_settings)
    binding = {"tool_choice": request.tool_choice, "response_format": form}

    return {
        **known,
        "request": CallArguments({**(known.get("request") or {}), **binding}),
        "summarizer": by_provider or in_place(cast("BaseChatModel", model)),
        "system": request.system_message.content if request.system_message is not None else None,
        "tools": [convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool for tool in (*tools, *answers)],
        "on_event": task.on_event,
    }


def _answer_tools(form: Any) -> list[BaseTool]:
    """Return the tools of a structured answer. Sent as a response format, its size is about the same."""
    if form is None:
        return []
    # Middleware may put a bare schema there.
    schema = cast("Any", form).schema if isinstance(form, AutoStrategy | ProviderStrategy) else form
    strategy = cast("Any", form if isinstance(form, ToolStrategy) else ToolStrategy(schema))
    binding: Any = OutputToolBinding
    return [binding.from_schema_spec(spec).tool for spec in strategy.schema_specs]


def _with_view(request: ModelRequest[Any], task: Task, view: list[BaseMessage]) -> ModelRequest[Any]:
    """Return the request that sends a view."""
    arguments = native_arguments(request.model, task.config, view, request.model_settings)
    return request.override(
        messages=cast("list[AnyMessage]", view), model_settings={**request.model_settings, **arguments}
    )
