"""The controller's events in the run's own stream and trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import CapabilityEvent

from compaction_adapters import kit
from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent

SPAN_NAME: Final = "compact_messages"
"""The name pydantic-ai-harness gives to the same thing, so that traces of both read alike."""


@dataclass(kw_only=True)
class CompactionStatusEvent(CapabilityEvent, namespace="compaction_hooks", name="status"):
    """A compaction began or ended; `@agent.on_event(CompactionStatusEvent)` or any event handler gets it.

    Its fields are those of `compaction_adapters.kit.Status`.
    """

    stage: kit.Stage
    reason: str
    session_id: str
    tokens: int
    tokens_before: int | None = None
    detail: str = ""
    duration_seconds: float = 0.0


def status_of(event: CompactionEvent) -> CompactionStatusEvent:
    """Return an event of the core as one of the framework."""
    return CompactionStatusEvent(**asdict(kit.status_of(event)))


def tell_run(ctx: RunContext[Any]) -> Callable[[CompactionEvent], Awaitable[None]]:
    """Return a handler that puts the controller's events into a run's stream and its compactions into the trace."""

    async def tell(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            figures = {
                name: value for name, value in kit.fields_of(event).items() if isinstance(value, str | int | float)
            }
            with ctx.tracer.start_as_current_span(SPAN_NAME) as span:
                span.set_attributes({f"compaction.{name}": value for name, value in figures.items()})
                span.set_attributes({"gen_ai.conversation.compacted": True, "compaction.strategy": "compaction_hooks"})
        if ctx.in_durable_context:
            return  # what is replayed there must not depend on who listens
        with suppress(UserError):  # a context that was made by hand, between two runs, has no stream
            await ctx.emit(status_of(event))

    return tell
