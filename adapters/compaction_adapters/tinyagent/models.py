"""Summaries by tinyagent's own models, and the error of a model call that failed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tinyagent.agent_types import (
    AssistantMessage,
    Context,
    Model,
    SimpleStreamOptions,
    StreamFn,
    TextContent,
    UserMessage,
)

from compaction_adapters.kit import summary_of
from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_hooks import Summarizer, Summary, SummaryRequest

ApiKeyResolver: TypeAlias = Callable[[str], Awaitable[str | None] | str | None]
"""`AgentOptions.get_api_key`: the key for a provider's name."""


class ModelCallError(RuntimeError):
    """A model call that tinyagent ended in an error message; the text is the provider's, as the stream function passed it on.

    Attributes:
        provider, model: The provider and the model that failed, from the message; None if it does not name them.
    """

    def __init__(self, message: AssistantMessage) -> None:
        super().__init__(message.error_message or "the model call failed without a text")
        self.provider = message.provider
        self.model = message.model


def summarizer(stream_fn: StreamFn, model: Model, *, get_api_key: ApiKeyResolver | None = None) -> Summarizer:
    """Return a summarizer that asks a model through a stream function; an agent takes the same two.

    The call runs outside any agent, so an agent's subscribers do not see the summary arrive.

    Args:
        get_api_key: Returns the key for a provider, as `AgentOptions.get_api_key` does; None leaves it to the stream function.
    """

    async def summarize(request: SummaryRequest) -> Summary:
        found = get_api_key(model.provider) if get_api_key else None
        key = await found if inspect.isawaitable(found) else found
        prompt = UserMessage(content=[TextContent(text=request.prompt)])
        context = Context(system_prompt=request.system, messages=[prompt])
        response = await stream_fn(model, context, SimpleStreamOptions(api_key=key, max_tokens=request.max_tokens))
        async for event in response:
            if event.type in ("done", "error"):
                break
        return _summary(await response.result())

    return summarize


def _summary(message: AssistantMessage) -> Summary:
    if message.stop_reason in ("error", "aborted"):
        raise ModelCallError(message)
    return summary_of(TinyAgentFormat().read(message)[0], message.stop_reason)
