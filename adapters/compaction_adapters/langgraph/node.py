"""`CompactionNode`: a node that makes a view for the model node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isfunction, ismethod
from types import FunctionType, MethodType
from typing import Any, TypeAlias, TypeVar, Unpack, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.runtime import Runtime  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Overwrite

from compaction_adapters.kit import ControllerKeywords, Flow, PolicyKeywords, Twin, controller_from, run, run_async
from compaction_adapters.langchain_core import (
    FORMAT,
    CallArguments,
    Conversation,
    Task,
    ThreadMethods,
    chat_model_in,
    is_configurable,
    list_tools,
    model_of_run,
    model_options,
    unbind,
    without_response_ids,
)
from compaction_adapters.langgraph.channels import RECORDS_KEY, VIEW_KEY, has_reducer, node_schema, takes_view
from compaction_adapters.langgraph.model import CompactingChatModel, CompactingModel, NodeConversations, run_options
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.arguments import format_name, format_value
from compaction_hooks.errors import ConfigurationError

Answer = TypeVar("Answer")
ModelOfRun: TypeAlias = Callable[[Any, Runtime[Any]], object]
"""A function that picks the model of a run, `(state, runtime) -> model`, as for `create_react_agent`."""


class CompactionNode(ThreadMethods[NodeConversations], Runnable[Any, dict[str, Any]]):
    """Keeps a conversation inside the context window: put it in front of the model node.

    `graph.add_node("compact", compact)`, or `create_react_agent(compact.wrap(model), ..., pre_model_hook=compact)`. The model node
    calls the model that `wrap` returns, with the messages of the state, which are not changed. The record of a compaction is
    checkpointed before that, in a channel that no schema and no `values` event shows. Status events go to `stream_mode="custom"`.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        model: The chat model that the model node calls, if `wrap` did not return it. Its name, window and bound tools count, and
            it writes the summaries if no `summarizer` is given. A function `(state, runtime) -> model` picks it in each call of
            the node. `summarizer=in_place(model)` needs a model that `wrap` returned, or one here with its tools bound, and its
            `system`: of other calls the options are not known, and a transcript is asked for.
        messages_key: The state's key for messages.
        output_key: The state's key for the view, if the model node reads it from the state; `CompactionState` declares it. A model
            that `wrap` returned finds the view itself: then only a channel declared for views is filled. None: never.
        trim: Write the view back to `messages_key` too, so that checkpoints stay small; compacted messages are then removed from
            the state. No other node may write the key in the same step.
        system: A system prompt outside the messages, for its size.
        tools: Tools for their size, as for `bind_tools`.
        recall: Whether `compact.tools` has a tool by which the model reads again what its views leave out: add them to the tools
            of the graph, `ToolNode([*tools, *compact.tools])` and `bind_tools`. Not with `trim`, which leaves the state no others.
        compact: Whether `compact.tools` has a tool by which the model asks for a compaction.
        native: Whether the provider itself writes the summaries of calls of a `ChatAnthropic`, or of a `ChatOpenAI` with the
            Responses API, that `wrap` returned, if no model or summarizer is given: the view then begins with its items; calls of
            Anthropic have its beta header. Not with `trim`, which would make them messages of the state.
        **keywords: The controller's own: see `PolicyKeywords` of the kit.

    Raises:
        ConfigurationError: two arguments contradict one another, or one is of a wrong type.
    """

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        model: BaseChatModel | Runnable[LanguageModelInput, Any] | ModelOfRun | None = None,
        messages_key: str = "messages",
        output_key: str | None = VIEW_KEY,
        trim: bool = False,
        system: str | SystemMessage | None = None,
        tools: Sequence[BaseTool | Mapping[str, Any] | Callable[..., Any]] = (),
        recall: bool = False,
        compact: bool = False,
        native: bool = False,
        **keywords: Unpack[PolicyKeywords],
    ) -> None:
        _check_keys(messages_key, output_key)
        if trim and (recall or native):
            raise ConfigurationError(
                f"{'recall' if recall else 'native'}=True and trim=True exclude one another: trim removes the messages that recall "
                "reads from the state, and would write the provider's block to it"
            )

        self._pick_model = _picker(model)
        self._options = _options(None if self._pick_model else model, system, tools)
        self._is_fixed = frozenset(name for name in ("context_window", "summarizer") if keywords.get(name) is not None)
        self._wrapped: object = None

        named = cast("ControllerKeywords", {**keywords})  # all of its keys but one
        if controller is None and "model" in self._options:
            named["model"] = self._options.get("model")
        sees_model = self._pick_model is not None or self._options.get("context_window") is not None
        chosen = controller_from(controller, named, FORMAT, taker=type(self), sees_model=sees_model)

        self.schema = node_schema(messages_key)
        """Schema of the node's state, for a function around the node: `add_node(..., input_schema=node.schema)`."""
        self._messages_key, self._output_key, self._trim = messages_key, output_key, trim
        self._sessions = NodeConversations(chosen, messages_key, has_recall=recall, is_native=native)
        self.tools: list[BaseTool] = list_tools(self._sessions, messages_key, recall=recall, compact=compact)
        """The tools of the model, with `recall=True` and `compact=True`."""

        setattr(self, "__call__", self._annotate_call())  # noqa: B010 - of this instance only

    # -- the node

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the update of the state: the view for the model, and a new record if there is one.

        Raises:
            ConfigurationError: the state has no messages, the graph lacks a channel for the update, or no model can read the view.
        """
        return run(self._make_update(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the update of the state, async."""
        return await run_async(self._make_update(input, config))

    def __call__(self, state: Any, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the update of the state; LangGraph reads the node's schema from this method."""
        return self.invoke(state, config)

    def _annotate_call(self) -> MethodType:
        # LangGraph reads the channels of a node from the annotations of its `__call__`; each node has a schema of its own.
        method = type(self).__call__
        clone = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__)
        clone.__annotations__ = {"state": self.schema, "return": dict[str, Any]}
        return MethodType(clone, self)

    # -- for the model node

    def view(self, state: Mapping[str, Any], config: RunnableConfig | None = None) -> list[BaseMessage]:
        """Return the view of the current state, for a model node whose model `wrap` did not return."""
        return run(self._view_state(state, config))

    async def aview(self, state: Mapping[str, Any], config: RunnableConfig | None = None) -> list[BaseMessage]:
        """Return the view of the current state, async."""
        return await run_async(self._view_state(state, config))

    def wrap(self, model: Runnable[LanguageModelInput, Answer]) -> CompactingModel[Answer]:
        """Return the model with recovery: when it rejects a request as too long, the request is compacted and sent once more.

        Call it with the view or with all messages, which it compacts as the node does, for the model of the call. Its records go
        into the same channel of the graph. A node without a `model` of its own compacts for the model that it wraps: for the one
        of the conversation's last call, or the first wrapped one before any call.

        Raises:
            ConfigurationError: `model` is no chat model, and no runnable around one.
        """
        if not isinstance(model, Runnable):  # pyright: ignore[reportUnnecessaryIsInstance] - a user may pass any object
            raise ConfigurationError(f"wrap({format_name(model)}) {_needs_model(model)}")
        if self._wrapped is None:
            self._wrapped = model
        wrapper = CompactingChatModel if isinstance(unbind(model)[0], BaseChatModel) else CompactingModel[Any]
        return cast("CompactingModel[Answer]", wrapper(cast("Any", model), self._sessions, self._options))

    # -- helpers

    def _thread_options(
        self, session: CompactionSession[BaseMessage], config: RunnableConfig, given: CallOptions
    ) -> CallOptions:
        known: CallOptions = {}
        if self._pick_model is None:
            # The options of the last call's model, or of the first wrapped one.
            wrapped, last = model_options(model_of_run(self._wrapped, config)), self._sessions.last_call(session)
            # A configurable model may be another one in each run.
            known = {**last, **wrapped} if is_configurable(self._wrapped) else {**wrapped, **last}

        options: CallOptions = run_options(Task(config))
        for name in self._is_fixed.intersection(options):
            raise ConfigurationError(
                f"{name} is given to CompactionNode, for all runs, and by this run: give it in one place"
            )

        return {**known, **self._options, **options, **given}

    def _conversation(self, state: Mapping[str, Any], config: RunnableConfig | None) -> Conversation:
        messages = state.get(self._messages_key)
        if not isinstance(messages, list):
            raise ConfigurationError(
                f"the state has no list of messages under {format_name(self._messages_key)} "
                f"(found: {', '.join(map(format_name, state)) or 'nothing'}): "
                "name its key, CompactionNode(messages_key=...)"
            )
        return self._sessions.of(Task(ensure_config(config)), cast("list[BaseMessage]", messages), state)

    def _make_view(
        self, conversation: Conversation, state: Mapping[str, Any]
    ) -> Flow[tuple[list[BaseMessage], list[BaseMessage]]]:
        """Return the view for the model node, and the list to store in place of the messages; each may be these themselves."""
        session, messages, task = conversation.session, conversation.messages, conversation.task
        options = self._thread_options(session, task.config, CallOptions(on_event=task.on_event))
        if self._pick_model is not None:
            picked = model_of_run(self._pick_model(state, task.runtime), task.config)
            options = {**model_options(picked), **options}

        view: list[BaseMessage]
        view = yield Twin(session.transform_context_sync, session.transform_context, messages, **options)

        to_store = session.to_store(view)
        if to_store is not messages:
            to_store = without_response_ids(to_store)
        if view is not messages:
            view = without_response_ids(view)
            _hide_from_stream(task, [*view, *to_store])

        self._sessions.remember_view(conversation, view)
        return view, to_store

    def _make_update(self, state: Mapping[str, Any], config: RunnableConfig | None) -> Flow[dict[str, Any]]:
        conversation, key = self._conversation(state, config), self._output_key
        task = conversation.task
        is_found = self._trim or self._wrapped is not None or self._pick_model is not None
        puts_view = takes_view(task, key, is_found=is_found)
        view, to_store = yield from self._make_view(conversation, state)

        update = self._sessions.keep(conversation)
        if key is not None and (puts_view or task.get(key)):
            # An earlier view, in a checkpoint of `create_react_agent`, would be read again.
            update[key] = view if puts_view else []

        if self._trim and to_store is not conversation.messages:
            is_reduced = has_reducer(task, self._messages_key) is not False
            update[self._messages_key] = Overwrite(to_store) if is_reduced else to_store
        return update

    def _view_state(self, state: Mapping[str, Any], config: RunnableConfig | None) -> Flow[list[BaseMessage]]:
        conversation = self._conversation(state, config)
        view, _ = yield from self._make_view(conversation, state)
        conversation.task.write(self._sessions.keep(conversation))
        return view


def _check_keys(messages_key: str, output_key: str | None) -> None:
    if not messages_key or output_key in ("", messages_key) or RECORDS_KEY in (messages_key, output_key):
        raise ConfigurationError(
            f"messages_key={format_name(messages_key)} and output_key={format_name(output_key)} must name two keys of the state, "
            f"not {RECORDS_KEY!r}, which the node itself uses. To shorten the conversation itself: trim=True"
        )


def _picker(model: object) -> ModelOfRun | None:
    """Return the function that picks the model of a run; None if all runs have the same."""
    if is_configurable(model):
        return lambda _state, _runtime: model
    return cast("ModelOfRun", model) if isfunction(model) or ismethod(model) else None


def _needs_model(given: object) -> str:
    return "must be the chat model itself" + (
        f": init_chat_model({format_name(given)})" if isinstance(given, str) else ""
    )


def _options(
    model: object,
    system: str | SystemMessage | None,
    tools: Sequence[BaseTool | Mapping[str, Any] | Callable[..., Any]],
) -> CallOptions:
    options = CallOptions() if model is None else model_options(model)

    if isinstance(model, str):
        raise ConfigurationError(
            f"model={format_name(model)} {_needs_model(model)}, or for its window alone "
            f"CompactionNode(CompactionController(model={format_name(model)}))"
        )
    if model is not None and chat_model_in(model) is None:
        raise ConfigurationError(f"model={format_name(model)} {_needs_model(model)}")

    if system is not None:
        options["system"] = system.content if isinstance(system, SystemMessage) else system
    if tools:
        given = cast("Sequence[object]", tools)
        if foreign := [tool for tool in given if not isinstance(tool, BaseTool | Mapping) and not callable(tool)]:
            raise ConfigurationError(f"tools must be those of the model, not {format_value(foreign[0])}")
        options["tools"] = [tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool) for tool in tools]

    arguments, made = unbind(model)[1], options.get("request")
    if isinstance(made, CallArguments) and "tools" in arguments and not tools:
        # The model is whole: its node calls it with the system prompt and the view.
        prompts = [SystemMessage(system) if isinstance(system, str) else system]
        made.prefix, made.sent = [prompt for prompt in prompts if prompt is not None], arguments
    return options


def _hide_from_stream(task: Task, view: Iterable[BaseMessage]) -> None:
    """Mark the messages of a view as shown for `stream_mode="messages"`.

    It shows all new messages that a node returns, and so would show the summary to the user.
    """
    for handler in cast("Iterable[object]", getattr(task.config.get("callbacks"), "handlers", ())):
        seen = getattr(handler, "seen", None)
        if isinstance(seen, set) and type(handler).__module__.startswith("langgraph."):
            cast("set[str | int]", seen).update(message.id for message in view if message.id is not None)
