"""A chat model that recovers from overflows, the result of the node's `wrap`, and the conversation of its call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain_core import (
    Conversation,
    Conversations,
    Task,
    chat_model_in,
    make_call,
    model_of_run,
    model_options,
    native_arguments,
    native_summarizer,
)
from compaction_adapters.langgraph.channels import RECORDS_KEY
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError

Answer = TypeVar("Answer")
RUN_OPTIONS_KEY: Final = "compaction"
"""The key in `config["configurable"]` and in a run's context for options of its calls."""
_Lists: TypeAlias = tuple[list[BaseMessage], list[BaseMessage]]


class NodeConversations(Conversations):
    """The conversations of a compaction node and of the models that it wraps.

    Args:
        messages_key: The state's key for messages. It distinguishes the conversations of one state.
        has_recall: Whether the model has the recall tool.
        is_native: Whether the provider of a wrapped model compacts if it can.
    """

    def __init__(
        self,
        controller: CompactionController[Any],
        messages_key: str,
        *,
        has_recall: bool = False,
        is_native: bool = False,
    ) -> None:
        suffix = "" if messages_key == "messages" else f"#{messages_key}"
        super().__init__(controller, RECORDS_KEY, suffix, has_recall=has_recall)
        self.is_native = is_native
        self._messages_key = messages_key
        self._views: WeakKeyDictionary[CompactionSession[BaseMessage], tuple[_Lists, ...]] = WeakKeyDictionary()

    def remember_view(self, conversation: Conversation, view: list[BaseMessage]) -> None:
        """Remember the view that a node returns: each possible input of a model, with the list of all messages for it.

        The view is copied: its list is the graph's, which may put a system prompt into it.
        """
        whole = conversation.messages
        self._views[conversation.session] = (([*view], whole), (whole, whole))

    def of_call(self, task: Task, messages: list[BaseMessage]) -> Conversation:
        """Return the conversation of a task that calls the model with these messages.

        A session follows one list: the state's, or the one whose view a node has returned. If the model's input contains this list
        or its view, with other messages around it or not, it is the same conversation; any other input is another conversation.
        """
        in_state = task.get(self._messages_key)
        own = cast("list[BaseMessage]", in_state if isinstance(in_state, list) else [])
        conversation = self.of(task, own or messages)
        views = self._views.get(conversation.session, ())
        for known, whole in ((own, own), *views):
            if (found := _around(messages, known)) is not None:
                before, after = found
                return replace(conversation, messages=[*whole, *after] if after else whole, prefix=before)
        return self.of(task, messages, kind="#model" if views else "")


def _around(messages: list[BaseMessage], known: list[BaseMessage]) -> _Lists | None:
    """Return the messages before and after the known ones, or equal ones from a checkpoint; None if the list lacks them."""
    if not known or known[0] not in messages:
        return None
    start = messages.index(known[0])
    end = start + len(known)
    return (messages[:start], messages[end:]) if messages[start:end] == known else None


def run_options(task: Task) -> CallOptions:
    """Return the options of a run; those in its configuration take precedence over those in its context.

    Raises:
        ConfigurationError: the options are not a mapping.
    """
    found: dict[str, Any] = {}
    for source in (getattr(task.runtime, "context", None), task.configurable):
        options: object = getattr(source, RUN_OPTIONS_KEY, None)
        if isinstance(source, Mapping):
            options = cast("Mapping[str, object]", source).get(RUN_OPTIONS_KEY)
        if options is not None and not isinstance(options, Mapping):
            raise ConfigurationError(
                f"{RUN_OPTIONS_KEY}={format_value(options)} of a run must be a dict of options, such as "
                '{"context_window": 128_000}'
            )
        found |= cast("Mapping[str, Any]", options or {})
    return cast("CallOptions", found)  # a session checks names and values


class CompactingModel(Runnable[LanguageModelInput, Answer]):
    """A model that compacts its input if that is too long, and recovers once if the provider rejects the request all the same.

    `CompactionNode.wrap` returns it. Once a token of an answer was streamed, errors are raised unchanged.

    Raises:
        ModelContextOverflowError: by every method, when no smaller view is valid, or the smaller one was rejected too.
    """

    def __init__(
        self, model: Runnable[LanguageModelInput, Answer], conversations: NodeConversations, options: CallOptions
    ) -> None:
        self._model = model
        self._conversations = conversations
        self._given = options

    def invoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """Return the model's answer."""
        answer: Answer = run(self._call_model(input, config, kwargs))
        return answer

    async def ainvoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """Return the model's answer, async."""
        return await run_async(self._call_model(input, config, kwargs))

    def stream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Iterator[Answer]:
        """Yield the answer's chunks."""
        yield from run(self._call_model(input, config, kwargs, is_stream=True))

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> AsyncIterator[Answer]:
        """Yield the answer's chunks, async."""
        async with aclosing(await run_async(self._call_model(input, config, kwargs, is_stream=True))) as chunks:
            async for chunk in chunks:
                yield chunk

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> CompactingModel[Answer]:
        """Return the model with these tools bound; `create_react_agent` calls this."""
        bind: Callable[..., Runnable[LanguageModelInput, Answer]] | None = getattr(self._model, "bind_tools", None)
        if bind is None:
            raise ConfigurationError(f"{type(self._model).__name__} has no bind_tools: wrap the chat model itself")
        return type(self)(bind(tools, **kwargs), self._conversations, self._given)

    def _call_model(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None,
        arguments: Mapping[str, Any],
        *,
        is_stream: bool = False,
    ) -> Flow[Any]:
        """Return the answer or its stream; write the records into the graph's channel."""
        config, messages = ensure_config(config), convert_to_messages([input] if isinstance(input, str) else input)
        conversation = self._conversations.of_call(Task(config), messages)
        options = self._options(conversation, arguments)

        async def open_stream(*given: Any, **called_with: Any) -> AsyncIterator[Answer]:
            return self._model.astream(*given, **called_with)

        forms = (self._model.stream, open_stream) if is_stream else (self._model.invoke, self._model.ainvoke)

        def send(view: list[BaseMessage]) -> Twin:
            named = {**arguments, **native_arguments(self._model, config, view, arguments)}
            return Twin(*forms, [*conversation.prefix, *view], config, **named)

        try:
            return (yield from make_call(conversation, send, options))
        finally:
            conversation.task.write(self._conversations.keep(conversation))

    def _options(self, conversation: Conversation, arguments: Mapping[str, Any]) -> CallOptions:
        given, model = self._given, model_of_run(self._model, conversation.task.config)
        known = model_options(model, arguments)
        is_native = self._conversations.is_native
        by_provider = native_summarizer(model, conversation.prefix, arguments) if is_native else None

        options: CallOptions = {
            "model": given.get("model"),
            "context_window": given.get("context_window"),
            **known,
            "summarizer": given.get("summarizer") or by_provider or known.get("summarizer"),
        }
        if conversation.prefix:
            options["system"] = [message.content for message in conversation.prefix]

        self._conversations.remember_call(conversation.session, options)
        return {**options, **run_options(conversation.task), "on_event": conversation.task.on_event}


class CompactingChatModel(CompactingModel[AIMessage], BaseChatModel):  # type: ignore[misc] # a stream's chunks are answers
    """A chat model that compacts and recovers, for callers that need a chat model: `create_react_agent(response_format=...)`."""

    def __init__(
        self, model: Runnable[LanguageModelInput, AIMessage], conversations: NodeConversations, options: CallOptions
    ) -> None:
        inner = chat_model_in(model)
        BaseChatModel.__init__(self, profile=getattr(inner, "profile", None))
        CompactingModel.__init__(self, model, conversations, options)  # pyright: ignore[reportUnknownMemberType]

    @property
    def model_name(self) -> str | None:
        """The name of the model inside."""
        return model_options(self._model).get("model")

    def with_structured_output(self, schema: Any, **kwargs: Any) -> CompactingModel[Any]:
        """Return the model with structured answers, whose requests are compacted too. Tools bound to the model are not sent."""
        chat_model = cast("BaseChatModel", chat_model_in(self._model))
        return CompactingModel(chat_model.with_structured_output(schema, **kwargs), self._conversations, self._given)

    @property
    def _llm_type(self) -> str:
        return "compacting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,  # noqa: ARG002 - the signature is langchain's
        **kwargs: Any,
    ) -> ChatResult:
        answer = self.invoke(messages, None, **({"stop": stop} if stop else {}), **kwargs)
        return ChatResult(generations=[ChatGeneration(message=answer)])
