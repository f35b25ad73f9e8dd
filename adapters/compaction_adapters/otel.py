"""OpenTelemetry: one span per compaction, through its tracing API.

Names of the GenAI semantic conventions are those of https://github.com/open-telemetry/semantic-conventions-genai (read 2026-11-22,
status: development); attributes that have no name there begin with `compaction.`.
"""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Final

from compaction_hooks.errors import MissingExtraError
from compaction_hooks.events import CompactionEvent, CompactionFailed, CompactionFinished
from compaction_hooks.messages import Usage

try:
    from opentelemetry.trace import StatusCode, Tracer, get_tracer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise MissingExtraError("compaction_adapters.otel", "OpenTelemetry's API", "otel") from error

__all__ = ["SPAN_NAME", "OpenTelemetryHandler"]

SPAN_NAME: Final = "compact conversation"
"""The name of every span."""
_OPERATION: Final = "compact"
"""The conventions have no name for this operation and allow custom ones."""
_UNNAMED: Final = "default"
"""The id of a controller's default session: it identifies no conversation."""
_NANOSECONDS: Final = 1_000_000_000


class OpenTelemetryHandler:
    """An event handler, for `on_event=`, that makes one span of each compaction.

    A span is a child of the caller's current span. Its attributes are the numbers of the event, each under its own name after
    `compaction.`. The span of a failed compaction has the status "error" and an `error.type`; the error's text may quote the
    conversation and is not recorded. A compaction that was skipped or cancelled makes no span.

    The span is made when the compaction has ended, so the spans of the summarizer's own calls are its siblings, not its children.

    Args:
        tracer: Makes the spans. None: the tracer of the global provider, even if the provider is set later. Without a provider
            nothing is recorded.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or get_tracer("compaction_hooks")

    def __call__(self, event: CompactionEvent) -> None:
        """Record a compaction that succeeded or failed; ignore all other events."""
        if not isinstance(event, CompactionFinished | CompactionFailed):
            return
        end = time.time_ns()
        start = end - int(event.duration_seconds * _NANOSECONDS)
        span = self._tracer.start_span(SPAN_NAME, attributes=_attributes(event), start_time=start)
        if isinstance(event, CompactionFailed):
            span.set_status(StatusCode.ERROR)
        span.end(end)


def _attributes(event: CompactionFinished | CompactionFailed) -> dict[str, str | bool | int | float]:
    attributes: dict[str, str | bool | int | float] = {
        "gen_ai.operation.name": _OPERATION,
        "compaction.event_version": event.version,
        "compaction.reason": event.reason.value,
        **_figures(event),
        **_usage(event.usage),
    }

    if event.session_id != _UNNAMED:
        attributes["gen_ai.conversation.id"] = event.session_id
    if isinstance(event, CompactionFinished):
        attributes["gen_ai.conversation.compacted"] = True  # the conventions forbid False
        attributes["compaction.count"] = event.record.compaction_count
        attributes["compaction.record_id"] = event.record.id
    else:
        attributes["error.type"] = event.error.partition(":")[0]
    return attributes


def _figures(event: CompactionFinished | CompactionFailed) -> dict[str, int | float]:
    """Return the numbers and booleans of an event."""
    values = {f"compaction.{field.name}": getattr(event, field.name) for field in fields(event)}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _usage(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    estimated = {"compaction.usage_is_estimate": True} if usage.is_estimate else {}
    return {
        **estimated,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_tokens,
    }
