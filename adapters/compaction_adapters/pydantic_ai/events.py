"""The controller's events in a run's stream and trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import CapabilityEvent

from compaction_adapters.kit import Stage, fields_of, status_of

if TYPE_CHECKING:  # no quiet call has an event
    from compaction_hooks.events import CompactionEvent


@dataclass(kw_only=True)
class CompactionStatusEvent(CapabilityEvent, namespace="compaction_hooks", name="status"):
    """The start or end of a compaction, for `@agent.on_event(CompactionStatusEvent)` and all other event handlers.

    The fields are those of `compaction_adapters.kit.Status`.
    """

    stage: Stage
    reason: str
    session_id: str
    tokens: int
    tokens_before: int | None = None
    detail: str = ""
    duration_seconds: float = 0.0


def tell_run(ctx: RunContext[Any]) -> Callable[[CompactionEvent], Awaitable[None]]:
    """Return a handler that emits the controller's events in a run's stream, and a span for each compaction.

    The span has the name that pydantic-ai-harness gives it, so that traces of both look the same.
    """

    async def tell(event: CompactionEvent) -> None:
        status = status_of(event)
        if status.stage == "finished":
            figures = {name: value for name, value in fields_of(event).items() if isinstance(value, str | int | float)}
            with ctx.tracer.start_as_current_span("compact_messages") as span:
                span.set_attributes({f"compaction.{name}": value for name, value in figures.items()})
                span.set_attributes({"gen_ai.conversation.compacted": True, "compaction.strategy": "compaction_hooks"})
        if ctx.in_durable_context:
            return  # a replay must not depend on which handlers are attached
        with suppress(UserError):  # a context that the user made between two runs has no stream
            await ctx.emit(CompactionStatusEvent(**asdict(status)))

    return tell
