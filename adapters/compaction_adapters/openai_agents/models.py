"""A model of the SDK whose every call is compacted, and summaries by a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

from agents import Model, ModelResponse, ModelSettings, ModelTracing, MultiProvider
from agents.exceptions import ModelBehaviorError
from agents.usage import Usage as SDKUsage

from compaction_adapters.kit import (
    REASONING_TOKENS,
    ask_in_place,
    positive,
    summary_of,
    tool_schema,
    with_reasoning_room,
)
from compaction_hooks import CallOptions, LiveCall, Message, Summarizer, Summary, SummaryRequest, Usage
from compaction_hooks.formats import OpenAIResponsesFormat, read_answer

Item: TypeAlias = Any
"""An item of OpenAI's Responses, as the SDK hands it over: a dict."""
FORMAT: Final = OpenAIResponsesFormat()
PRELUDE: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
"""Events before the answer; the SDK itself sends a request again after these."""
_FAILED: Final = frozenset({"response.failed", "error", "response.error"})
_OPTIONS: Final = ("truncation", "context_management", "tool_choice", "extra_body", "extra_args")
"""The settings by which the server may compact, or the answer be no text."""
_SENT: Final = "openai_agents_sent"
"""The option of a call that holds its `ModelCall`."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, without its input."""

    model: Model
    system: str | None
    settings: ModelSettings
    tools: list[Any]
    output_schema: Any
    handoffs: list[Any]
    tracing: ModelTracing
    server: dict[str, Any]
    """`previous_response_id`, `conversation_id` and `prompt`."""

    @property
    def is_whole(self) -> bool:
        """Whether the input is the whole list; else the server keeps the earlier items."""
        return not (self.server.get("previous_response_id") or self.server.get("conversation_id"))

    async def send(self, view: list[Item]) -> ModelResponse:
        """Send a view and return the whole answer."""
        return await self.model.get_response(  # by names, as the SDK itself calls it; a stream by positions
            system_instructions=self.system,
            input=view,
            model_settings=self.settings,
            tools=self.tools,
            output_schema=self.output_schema,
            handoffs=self.handoffs,
            tracing=self.tracing,
            **self.server,
        )

    async def stream(self, view: list[Item]) -> AsyncGenerator[Any]:
        """Send a view and yield the events of the answer."""
        events: Any = self.model.stream_response(
            self.system, view, self.settings, self.tools, self.output_schema, self.handoffs, self.tracing, **self.server
        )
        try:
            async for event in events:
                yield event
        finally:
            if hasattr(events, "aclose"):  # a model of the user's may return any iterator
                await events.aclose()

    def options(self) -> CallOptions:
        """Return the options of this call."""
        name = getattr(self.model, "model", None)
        tools = [_schema(tool) for tool in self.tools]
        tools += [tool_schema(one.tool_name, one.tool_description, one.input_json_schema) for one in self.handoffs]
        schema = None if self.output_schema is None or self.output_schema.is_plain_text() else self.output_schema
        if schema is not None:
            tools.append(tool_schema(schema.name(), None, schema.json_schema()))

        settings = self.settings
        bound = {**{name: getattr(settings, name, None) for name in _OPTIONS}, "output_schema": schema}
        return CallOptions(
            model=name if isinstance(name, str) else None,
            max_output_tokens=positive(settings.max_tokens),
            system=self.system,
            tools=tools,
            request={**bound, **self.server, _SENT: self},
            summarizer=_in_place(_asker(lambda: self.model, settings)),
        )


def _schema(tool: Any) -> object:
    """Return a tool's schema; a hosted tool has none, and counts with its name."""
    return tool_schema(tool.name, getattr(tool, "description", None), getattr(tool, "params_json_schema", None))


class Caller(Protocol):
    """Makes the calls of a compacting model."""

    def answer(self, call: ModelCall, given: str | list[Item]) -> Awaitable[ModelResponse]: ...
    def stream(self, call: ModelCall, given: str | list[Item]) -> AsyncIterator[Any]: ...


class CompactingModel(Model):
    """A model that sends views of its input; everything else is that of the model inside."""

    def __init__(self, inner: Model, caller: Caller) -> None:
        self._inner = inner
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._inner, name)  # the SDK asks for attributes that only some models have

    def get_retry_advice(self, request: Any) -> Any:
        """Return the advice of the model inside."""
        return self._inner.get_retry_advice(request)

    async def close(self) -> None:
        """Close the model inside."""
        await self._inner.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._inner._cleanup_on_run_end(owner)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Item],
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        **server: Any,
    ) -> ModelResponse:
        """Send a view of the input and return the answer."""
        call = ModelCall(
            self._inner, system_instructions, model_settings, tools, output_schema, handoffs, tracing, server
        )
        return await self.caller.answer(call, input)

    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Item],
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        **server: Any,
    ) -> AsyncIterator[Any]:
        """Send a view of the input and return the events of the answer."""
        call = ModelCall(
            self._inner, system_instructions, model_settings, tools, output_schema, handoffs, tracing, server
        )
        return self.caller.stream(call, input)


# -- answers


def read_response(response: ModelResponse) -> Message:
    """Return the usage of an answer; how it ended, the SDK does not tell."""
    return Message(role="assistant", parts=(), usage=_usage_of(response.usage))


def read_event(event: Any) -> Message | None:
    """Return the usage and the ending in the last event of a stream."""
    return None if event.type in PRELUDE else read_answer(event)


def is_prelude(event: Any) -> bool:
    """Return whether an event comes before the answer.

    Raises:
        ModelBehaviorError: the event tells that there will be none; the SDK would end the run with such an error.
    """
    if event.type in _FAILED:
        told = getattr(getattr(event, "response", None), "error", None) or event
        raise ModelBehaviorError(f"{event.type}: {getattr(told, 'code', None)}: {getattr(told, 'message', None)}")
    return event.type in PRELUDE


def _usage_of(usage: SDKUsage) -> Usage:
    details = usage.input_tokens_details
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=details.cached_tokens or 0,
        cache_write_tokens=getattr(details, "cache_write_tokens", 0) or 0,
    )


# -- summaries


def summarizer(model: Model | str) -> Summarizer:
    """Return a summarizer that asks this model.

    Args:
        model: One of the SDK's models, or the name of one, which is looked up at each summary.
    """
    return _asker(lambda: MultiProvider().get_model(model) if isinstance(model, str) else model, ModelSettings())


def in_place(model: Model | str) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call where that costs less than a
    transcript and fits; otherwise, and once if the answer is no summary, a model is asked as by `summarizer(model)`.

    Args:
        model: As in `summarizer`: for the summaries by a transcript.
    """
    return _in_place(summarizer(model))


def _in_place(by_transcript: Summarizer) -> Summarizer:
    """Return a summarizer that asks in place by the last call, and otherwise as the given one."""

    async def ask(live: LiveCall, request: SummaryRequest) -> Summary:
        sent: Any = (live.request or {})[_SENT]
        limit = request.max_tokens + REASONING_TOKENS
        call: ModelCall = replace(
            sent, settings=replace(sent.settings, max_tokens=limit), tracing=ModelTracing.DISABLED
        )
        return _summary_of(await call.send([*live.messages]), limit)

    return ask_in_place(ask, lambda summary: summary, by_transcript)


def _asker(find_model: Callable[[], Model], settings: ModelSettings) -> Summarizer:
    """Return a summarizer; of the settings those that locate the model are sent, and whether the provider may store a call."""

    async def ask(request: SummaryRequest, limit: int) -> Summary:
        response = await find_model().get_response(
            request.system,
            request.prompt,
            ModelSettings(
                max_tokens=limit,
                store=settings.store,
                extra_headers=settings.extra_headers,
                extra_query=settings.extra_query,
            ),
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        return _summary_of(response, limit)

    return with_reasoning_room(ask)


def _summary_of(response: ModelResponse, limit: int) -> Summary:
    """Return an answer as a summary: the SDK passes on how its items ended, and of a chat completion not even that."""
    items: list[Item] = [*response.output]
    is_refusal = any(part.type == "refusal" for item in items for part in getattr(item, "content", None) or ())
    is_cut = any(getattr(item, "status", None) == "incomplete" for item in items)
    ending = "refusal" if is_refusal else "incomplete" if is_cut else None

    parts = tuple(part for item in items for part in FORMAT.read(item)[0].parts)
    answer = Message(role="assistant", parts=parts, usage=_usage_of(response.usage))
    return summary_of(answer, ending, limit=limit)
