"""A chat model that recovers: what the node's `wrap` returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, ensure_config
from langchain_core.runnables.config import merge_configs

from compaction_adapters.langchain_core import (
    ModelContextOverflowError,
    PassedOn,
    TokenWatch,
    chat_model_in,
    max_output_tokens,
    model_of_run,
    model_options,
    passed_on,
    read_answer,
    stream_events,
    without_response_ids,
)
from compaction_adapters.langgraph.conversations import Asked, Conversations
from compaction_adapters.langgraph.run_options import run_options
from compaction_adapters.langgraph.streams import stream_writer
from compaction_hooks import CallOptions, CompactionSession, ContextOverflowError, Message
from compaction_hooks.errors import ConfigurationError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Call(Generic[Answer]):
    """One call of the model, whatever view it is sent with."""

    model: Runnable[LanguageModelInput, Answer]
    asked: Asked
    config: RunnableConfig
    arguments: Mapping[str, Any]
    options: CallOptions
    watch: TokenWatch = field(default_factory=TokenWatch)

    def send(self, view: list[BaseMessage]) -> Answer | PassedOn:
        """Send a view and wait for the answer."""
        try:
            return self.model.invoke(self.sendable(view), self._watched, **self.arguments)
        except Exception as error:  # noqa: BLE001 - raised again, or passed on
            return passed_on(error, self.watch)

    async def asend(self, view: list[BaseMessage]) -> Answer | PassedOn:
        """As `send`, awaited."""
        try:
            return await self.model.ainvoke(self.sendable(view), self._watched, **self.arguments)
        except Exception as error:  # noqa: BLE001 - raised again, or passed on
            return passed_on(error, self.watch)

    def open(self, view: list[BaseMessage]) -> Iterator[Answer]:
        """Send a view for a stream of chunks."""
        return self.model.stream(self.sendable(view), self.config, **self.arguments)

    async def aopen(self, view: list[BaseMessage]) -> AsyncIterator[Answer]:
        """As `open`, awaited."""
        return self.model.astream(self.sendable(view), self.config, **self.arguments)

    def sendable(self, view: list[BaseMessage]) -> list[BaseMessage]:
        """Return what is sent for a view: with what stood before it, and as OpenAI's Responses need it."""
        return [*self.asked.prefix, *(view if view is self.asked.messages else without_response_ids(view))]

    def read(self, answer: object) -> Message | None:
        """Return the usage and the end of an answer or of a chunk of it."""
        return read_answer(answer, self.watch) if isinstance(answer, AIMessage) else None

    @property
    def session(self) -> CompactionSession[BaseMessage]:
        """The session of the conversation."""
        return self.asked.conversation.session

    @property
    def _watched(self) -> RunnableConfig:
        return merge_configs(self.config, {"callbacks": [self.watch]})


class CompactingModel(Runnable[LanguageModelInput, Answer]):
    """A model that compacts what it is given where that is too long, and recovers once when it is rejected all the same.

    Made by `CompactionNode.wrap`. Once a token of an answer was streamed, an error surfaces as it is.

    Raises:
        ModelContextOverflowError: by every method, when nothing smaller is valid, or it was rejected too.
    """

    def __init__(
        self, model: Runnable[LanguageModelInput, Answer], conversations: Conversations, options: CallOptions
    ) -> None:
        self._model = model
        self._conversations = conversations
        self._given = options

    def invoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """Return the model's answer."""
        call = self._call(input, config, kwargs)
        with self._kept(call):
            answer = call.session.call_sync(call.asked.messages, call.send, answer=call.read, **call.options)
        return _answered(answer)

    async def ainvoke(self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """As `invoke`, awaited."""
        call = self._call(input, config, kwargs)
        with self._kept(call):
            answer = await call.session.call(call.asked.messages, call.asend, answer=call.read, **call.options)
        return _answered(answer)

    def stream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Iterator[Answer]:
        """Yield the answer's chunks."""
        call = self._call(input, config, kwargs)
        with self._kept(call):
            chunks = call.session.call_sync(call.asked.messages, call.open, answer=call.read, **call.options)
        with closing(cast(Any, chunks)):
            yield from chunks

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> AsyncIterator[Answer]:
        """As `stream`, awaited."""
        call = self._call(input, config, kwargs)
        with self._kept(call):
            chunks = await call.session.call(call.asked.messages, call.aopen, answer=call.read, **call.options)
        async with aclosing(cast(Any, chunks)):
            async for chunk in chunks:
                yield chunk

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> CompactingModel[Answer]:
        """Return the model with these tools bound; what `create_react_agent` asks a model for."""
        bind: Callable[..., Runnable[LanguageModelInput, Answer]] | None = getattr(self._model, "bind_tools", None)
        if bind is None:
            raise ConfigurationError(f"{type(self._model).__name__} has no bind_tools: wrap the chat model itself")
        return type(self)(bind(tools, **kwargs), self._conversations, self._given)

    def _call(
        self, input: LanguageModelInput, config: RunnableConfig | None, arguments: Mapping[str, Any]
    ) -> _Call[Answer]:
        config = ensure_config(config)
        asked = self._conversations.asked(config, _messages(input))
        model = model_of_run(self._model, config)
        options = _facts(model, self._given)
        if arguments:
            options["max_output_tokens"] = max_output_tokens(model, arguments)
            options["tools"] = arguments.get("tools", options.get("tools"))
        if asked.prefix:
            options["system"] = [message.content for message in asked.prefix]
        self._conversations.remember_call(asked.conversation.session, options)
        write = stream_writer(config)
        return _Call(
            self._model,
            asked,
            config,
            arguments,
            {**options, **run_options(config), "on_event": None if write is None else stream_events(write)},
        )

    @contextmanager
    def _kept(self, call: _Call[Answer]) -> Generator[None]:
        """Write what was compacted in here into the graph's channel, and raise our error as LangChain's too."""
        try:
            yield
        except ContextOverflowError as error:
            raise ModelContextOverflowError.of(error) from error.__cause__
        finally:
            conversation = call.asked.conversation
            conversation.channels.write(self._conversations.kept(conversation, call.asked.messages))


class CompactingChatModel(CompactingModel[AIMessage], BaseChatModel):  # type: ignore[misc] # a stream's chunks are answers
    """A chat model that compacts and recovers, for what takes nothing else, as `create_react_agent(response_format=...)` does."""

    def __init__(
        self, model: Runnable[LanguageModelInput, AIMessage], conversations: Conversations, options: CallOptions
    ) -> None:
        BaseChatModel.__init__(self)
        CompactingModel.__init__(self, model, conversations, options)  # pyright: ignore[reportUnknownMemberType]

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
    """Return whether this is a chat model, with something bound to it or not."""
    inner = getattr(model, "bound", None)
    return isinstance(model, BaseChatModel) or (isinstance(model, RunnableBinding) and is_chat_model(inner))


def _facts(model: object, given: CallOptions) -> CallOptions:
    """What a session is told of every call of this model, where it is one. A system prompt is among its messages."""
    own = model_options(model) or CallOptions(model=given.get("model"), context_window=given.get("context_window"))
    return {**own, "summarizer": given.get("summarizer") or own.get("summarizer")}


def _messages(input: LanguageModelInput) -> list[BaseMessage]:
    if isinstance(input, PromptValue):
        return input.to_messages()
    return [HumanMessage(input)] if isinstance(input, str) else convert_to_messages(input)


def _answered(answer: Answer | PassedOn) -> Answer:
    if isinstance(answer, PassedOn):
        raise answer.raised
    return answer
