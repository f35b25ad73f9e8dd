"""The model calls of Strands Agents: their options and answers, and summaries by its models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from strands.event_loop.streaming import process_stream
from strands.middleware import InvokeModelContext, ModelStopReason, TypedEvent
from strands.models import Model

from compaction_adapters.kit import ask_in_place, positive, summary_of
from compaction_adapters.strands.messages import FORMAT, StrandsMessage
from compaction_hooks import CallOptions, LiveCall, Message, Summarizer, Summary, SummaryRequest, Usage
from compaction_hooks.formats import read_answer

OpenStream: TypeAlias = Callable[[list[StrandsMessage]], AsyncGenerator[TypedEvent]]
"""Makes a model call with these messages."""
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The names of the output limit in the configurations of Strands' models and in their `params`."""
_SENT: Final = "strands_sent"
"""The option of a call that holds the `OpenStream` which makes it again."""


def summarizer(model: Model) -> Summarizer:
    """Return a summarizer that asks this model, outside any agent.

    Strands' models have no limit of one call's output: that of the model's configuration applies.
    """

    async def summarize(request: SummaryRequest) -> Summary:
        prompt: Any = {"role": "user", "content": [{"text": request.prompt}]}
        chunks = model.stream([prompt], None, request.system, system_prompt_content=[{"text": request.system}])
        return await _read_summary(process_stream(chunks))

    return summarize


def in_place(model: Model) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call, its limit of the output
    included, where that costs less than a transcript and fits; otherwise, and once if the answer is no summary, a model is asked as
    by `summarizer(model)`.

    Args:
        model: As in `summarizer`: for the summaries by a transcript.
    """

    async def ask(live: LiveCall, _: SummaryRequest) -> Summary:
        send = cast("OpenStream", (live.request or {})[_SENT])
        return await _read_summary(send([*live.messages]))

    return ask_in_place(ask, lambda summary: summary, summarizer(model))


async def _read_summary(events: AsyncGenerator[TypedEvent]) -> Summary:
    ends: list[Any] = [event async for event in events if isinstance(event, ModelStopReason)]
    return summary_of(_read_end(ends[-1]), ends[-1]["stop"][0])


def call_options(context: InvokeModelContext, send: OpenStream) -> CallOptions:
    """Return the options of a model call for the session; the agent's auxiliary model writes its summaries, if it has one.

    Args:
        send: Makes the call again, with other messages.
    """
    model, agent = context.model, context.agent
    config: object = model.get_config()  # a dict in all models of Strands itself
    fields = cast("Mapping[str, Any]", config if isinstance(config, Mapping) else vars(config))
    request: dict[str, Any] = {**(fields.get("params") or {}), **(fields.get("additional_request_fields") or {})}
    limits = [positive(place.get(name)) for place in (fields, request) for name in _LIMITS]
    bound = {"tool_choice": next(iter(context.tool_choice or {}), None), "output_type": context.structured_output_model}
    writer: Any = getattr(agent, "aux_model", agent.model)

    return {
        "model": fields.get("model_id"),
        "context_window": positive(model.context_window_limit),
        "max_output_tokens": next(filter(None, limits), None),
        "system": context.system_prompt,
        "tools": context.tool_specs,
        "request": {"stateful": model.stateful, **request, **bound, _SENT: send},
        "summarizer": in_place(model) if writer is agent.model else summarizer(writer),
    }


def read_event(event: Mapping[str, Any]) -> Message | None:
    """Return the answer whose end an event of a model call tells, with its usage; None for any other event."""
    return _read_end(event) if isinstance(event, ModelStopReason) else None


def is_prelude(event: Mapping[str, Any]) -> bool:
    """Return whether an event comes before the first words of an answer."""
    chunk: Mapping[str, Any] = event.get("event") or {}
    return "messageStart" in chunk or "contentBlockStart" in chunk


def _read_end(event: Any) -> Message:
    stop_reason, message, counts, _ = event["stop"]
    output = counts["outputTokens"]
    usage = Usage(
        # Some models count cached tokens among `inputTokens`, others do not; all count them in the total.
        input_tokens=max(counts["inputTokens"], counts["totalTokens"] - output),
        output_tokens=output,
        cache_read_tokens=counts.get("cacheReadInputTokens", 0),
        cache_write_tokens=counts.get("cacheWriteInputTokens", 0),
    )

    ending = read_answer({"stopReason": stop_reason})
    return replace(FORMAT.read(message)[0], usage=usage, stop_reason=ending.stop_reason if ending else None)
