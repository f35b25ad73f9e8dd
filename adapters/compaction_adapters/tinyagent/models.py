"""Model calls through tinyagent's stream functions: their answers, their errors, and summaries."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, cast

from tinyagent.agent_types import (
    STREAM_UPDATE_EVENTS,
    AgentMessage,
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Model,
    SimpleStreamOptions,
    StreamFn,
    StreamResponse,
    TextContent,
    UserMessage,
)

from compaction_adapters.kit import REASONING_TOKENS, ask_in_place, summary_of, with_reasoning_room
from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_hooks import LiveCall, Message, Summarizer, Summary, SummaryRequest

ApiKeyResolver: TypeAlias = Callable[[str], Awaitable[str | None] | str | None]
"""`AgentOptions.get_api_key`: the key for a provider's name."""
SENT: Final = "tinyagent_sent"
"""The option of a call that holds its `Sent`."""


async def resolve(value: Any) -> Any:
    """Return the result of one of the host's functions, which may be async."""
    return await value if inspect.isawaitable(value) else value


class ModelCallError(RuntimeError):
    """A model call that tinyagent ended in an error message; the text is the provider's, as the stream function passed it on.

    Attributes:
        provider, model: The provider and the model that failed, from the message; None if it does not name them.
    """

    def __init__(self, message: AssistantMessage) -> None:
        super().__init__(message.error_message or "the model call failed without a text")
        self.provider = message.provider
        self.model = message.model


class Answer:
    """The response of a stream function. It is read up to its first update, so that a call that fails before that can be repeated.

    Attributes:
        message: The whole answer as a neutral message, if it came without an update; else None: the next list has its usage.
    """

    def __init__(self, response: StreamResponse) -> None:
        self.message: Message | None = None
        self.result = response.result
        self._events = aiter(response)
        self._read: list[AssistantMessageEvent] = []

    async def begin(self) -> None:
        """Read the response up to its first update.

        Raises:
            ModelCallError: it ended in an error message before that.
        """
        async for event in self._events:
            self._read.append(event)
            if event.type not in (None, "start"):
                break
        if not self._read or self._read[-1].type not in STREAM_UPDATE_EVENTS:
            answer = await self.result()
            if answer.stop_reason == "error":
                raise ModelCallError(answer)
            self.message = TinyAgentFormat().read(answer)[0]

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        return self._read.pop(0) if self._read else await anext(self._events)


# -- summaries


def summarizer(stream_fn: StreamFn, model: Model, *, get_api_key: ApiKeyResolver | None = None) -> Summarizer:
    """Return a summarizer that asks a model through a stream function; an agent takes the same two.

    The call runs outside any agent, so an agent's subscribers do not see the summary arrive.

    Args:
        get_api_key: Returns the key for a provider, as `AgentOptions.get_api_key` does; None leaves it to the stream function.
    """

    async def ask(request: SummaryRequest, limit: int) -> Summary:
        key = await resolve(get_api_key(model.provider) if get_api_key else None)
        context = Context(request.system, [UserMessage(content=[TextContent(text=request.prompt)])])
        return await _ask(stream_fn, model, context, SimpleStreamOptions(api_key=key, max_tokens=limit))

    return with_reasoning_room(ask)


class Sent(NamedTuple):
    """A call: the stream function and what it is given, without messages; and the agent's function that translates them."""

    stream_fn: StreamFn
    model: Model
    context: Context
    options: SimpleStreamOptions
    convert: Callable[[list[AgentMessage]], Any]


def in_place(stream_fn: StreamFn, model: Model, *, get_api_key: ApiKeyResolver | None = None) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call of an agent that the hook is
    attached to, where that costs less than a transcript and fits; otherwise, and once if the answer is no summary, a model is asked
    as by `summarizer`.

    Args:
        stream_fn, model, get_api_key: As in `summarizer`: for the summaries by a transcript.
    """

    async def ask(live: LiveCall, request: SummaryRequest) -> Summary:
        sent = cast("Sent", (live.request or {})[SENT])
        context = replace(sent.context, messages=await resolve(sent.convert([*live.messages])))
        limited = {"max_tokens": request.max_tokens + REASONING_TOKENS, "signal": None}
        return await _ask(sent.stream_fn, sent.model, context, sent.options.model_copy(update=limited))

    return ask_in_place(ask, lambda summary: summary, summarizer(stream_fn, model, get_api_key=get_api_key))


async def _ask(stream_fn: StreamFn, model: Model, context: Context, options: SimpleStreamOptions) -> Summary:
    response = await stream_fn(model, context, options)
    async for event in response:
        if event.type in ("done", "error"):
            break
    message = await response.result()
    if message.stop_reason in ("error", "aborted"):
        raise ModelCallError(message)
    return summary_of(TinyAgentFormat().read(message)[0], message.stop_reason, limit=options.max_tokens)
