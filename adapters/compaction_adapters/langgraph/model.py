"""A chat model that recovers from overflows, the result of the node's `wrap`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, ensure_config
from langchain_core.runnables.config import merge_configs

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain_core import (
    Conversation,
    Task,
    TokenWatch,
    chat_model_in,
    make_call,
    max_output_tokens,
    model_of_run,
    model_options,
    native_arguments,
    native_summarizer,
    request_options,
    without_response_ids,
)
from compaction_adapters.langgraph.runs import run_options
from compaction_adapters.langgraph.views import NodeConversations
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

Answer = TypeVar("Answer")


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
        config, watch = ensure_config(config), TokenWatch()
        conversation = self._conversations.of_call(Task(config), _messages(input))
        options = self._options(conversation, arguments)
        # The session itself reads the chunks of a stream.
        watched = config if is_stream else merge_configs(config, {"callbacks": [watch]})

        async def open_stream(*given: Any, **called_with: Any) -> AsyncIterator[Answer]:
            return self._model.astream(*given, **called_with)

        forms = (self._model.stream, open_stream) if is_stream else (self._model.invoke, self._model.ainvoke)

        def send(view: list[BaseMessage]) -> Twin:
            sent = view if view is conversation.messages else without_response_ids(view)
            named = {**arguments, **native_arguments(self._model, config, sent, arguments)}
            return Twin(*forms, [*conversation.prefix, *sent], watched, **named)

        try:
            return (yield from make_call(conversation, send, watch, options))
        finally:
            conversation.task.write(self._conversations.keep(conversation))

    def _options(self, conversation: Conversation, arguments: Mapping[str, Any]) -> CallOptions:
        given, model = self._given, model_of_run(self._model, conversation.task.config)
        known = model_options(model, arguments) or CallOptions(
            model=given.get("model"),
            context_window=given.get("context_window"),
            max_output_tokens=max_output_tokens(model, arguments),
            request=request_options(model, arguments),
        )
        is_native = self._conversations.is_native
        by_provider = native_summarizer(model, conversation.prefix, arguments) if is_native else None
        options: CallOptions = {
            **known,
            "summarizer": given.get("summarizer") or by_provider or known.get("summarizer"),
            "tools": arguments.get("tools", known.get("tools")),
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


def is_chat_model(model: object) -> bool:
    """Return whether this is a chat model, with bound arguments or not."""
    inner = getattr(model, "bound", None)
    return isinstance(model, BaseChatModel) or (isinstance(model, RunnableBinding) and is_chat_model(inner))


def _messages(input: LanguageModelInput) -> list[BaseMessage]:
    if isinstance(input, PromptValue):
        return input.to_messages()
    if isinstance(input, list) and all(issubclass(kind, BaseMessage) for kind in {*map(type, input)}):
        return cast("list[BaseMessage]", input)
    return [HumanMessage(input)] if isinstance(input, str) else convert_to_messages(input)
