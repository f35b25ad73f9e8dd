"""The model calls of Strands Agents: their options and answers, and summaries by its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from strands.event_loop.streaming import process_stream
from strands.middleware import InvokeModelContext, ModelStopReason
from strands.models import Model

from compaction_adapters.kit import positive, summary_of
from compaction_adapters.strands.messages import FORMAT
from compaction_hooks import CallOptions, Message, Summarizer, Summary, SummaryRequest, Usage
from compaction_hooks.formats import read_answer

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The names of the output limit in the configurations of Strands' models and in their `params`."""


def summarizer(model: Model) -> Summarizer:
    """Return a summarizer that asks this model, outside any agent.

    Strands' models have no limit of one call's output: that of the model's configuration applies.
    """

    async def summarize(request: SummaryRequest) -> Summary:
        prompt: Any = {"role": "user", "content": [{"text": request.prompt}]}
        chunks = model.stream([prompt], None, request.system, system_prompt_content=[{"text": request.system}])
        ends: list[Any] = [event async for event in process_stream(chunks) if isinstance(event, ModelStopReason)]
        return summary_of(_read_end(ends[-1]), ends[-1]["stop"][0])

    return summarize


def call_options(context: InvokeModelContext) -> CallOptions:
    """Return the options of a model call for the session; the agent's auxiliary model writes its summaries, if it has one."""
    model, agent = context.model, context.agent
    config: object = model.get_config()  # a dict in all models of Strands itself
    fields = cast("Mapping[str, Any]", config if isinstance(config, Mapping) else vars(config))
    request: dict[str, Any] = {**(fields.get("params") or {}), **(fields.get("additional_request_fields") or {})}
    limits = [positive(place.get(name)) for place in (fields, request) for name in _LIMITS]
    writer: Any = getattr(agent, "aux_model", agent.model)

    return {
        "model": fields.get("model_id"),
        "context_window": positive(model.context_window_limit),
        "max_output_tokens": next(filter(None, limits), None),
        "system": context.system_prompt,
        "tools": context.tool_specs,
        "request": {"stateful": model.stateful, **request},
        "summarizer": summarizer(model if writer is agent.model else writer),
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
