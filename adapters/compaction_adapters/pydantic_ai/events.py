"""The controller's events in the run's own stream and trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic_ai import RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import CapabilityEvent

from compaction_hooks import CompactionFailed, CompactionFinished, CompactionSkipped, CompactionStarted
from compaction_hooks.events import CompactionEvent, PinMissing, StoreFailed

SPAN_NAME: Final = "compact_messages"
"""The name pydantic-ai-harness gives to the same thing, so that traces of both read alike."""


@dataclass(kw_only=True)
class CompactionStatusEvent(CapabilityEvent, namespace="compaction_hooks", name="status"):
    """A compaction began or ended; `@agent.on_event(CompactionStatusEvent)` or any event handler gets it.

    Attributes:
        stage: "skipped" when one was due and was not made, "failed" when something went wrong.
        reason: "threshold", "overflow" or "manual"; "store" when records could not be loaded or kept, "pin" when pinned messages
            are not in the list.
        session_id: The conversation.
        tokens: Size of the context in tokens: before it began, or as it is handed out; 0 for store and pin.
        tokens_before: What a finished compaction began with, in tokens; None for other stages.
        detail: Why it was skipped, or what failed; never text of the conversation.
        duration_seconds: From its start; 0 for one that starts.
    """

    stage: Literal["started", "finished", "skipped", "failed"]
    reason: str
    session_id: str
    tokens: int
    tokens_before: int | None = None
    detail: str = ""
    duration_seconds: float = 0.0


def status_of(event: CompactionEvent) -> CompactionStatusEvent:
    """Return an event of the core as one of the framework."""
    session_id = event.session_id
    match event:
        case CompactionStarted():
            return CompactionStatusEvent(
                stage="started", reason=str(event.reason), session_id=session_id, tokens=event.tokens_before
            )
        case CompactionFinished():
            return CompactionStatusEvent(
                stage="finished",
                reason=str(event.reason),
                session_id=session_id,
                tokens=event.tokens_after,
                tokens_before=event.tokens_before,
                duration_seconds=event.duration_seconds,
            )
        case CompactionSkipped():
            return CompactionStatusEvent(
                stage="skipped",
                reason=str(event.reason),
                session_id=session_id,
                tokens=event.tokens,
                detail=event.why,
                duration_seconds=event.duration_seconds,
            )
        case CompactionFailed():
            return CompactionStatusEvent(
                stage="failed",
                reason=str(event.reason),
                session_id=session_id,
                tokens=event.tokens,
                detail=event.error,
                duration_seconds=event.duration_seconds,
            )
        case StoreFailed():
            return CompactionStatusEvent(
                stage="failed",
                reason="store",
                session_id=session_id,
                tokens=0,
                detail=f"{event.action}: {event.error}",
            )
        case PinMissing():
            return CompactionStatusEvent(
                stage="skipped",
                reason="pin",
                session_id=session_id,
                tokens=0,
                detail=f"pinned messages that are not in the list: {event.count}",
            )


def telling(ctx: RunContext[Any]) -> Callable[[CompactionEvent], Awaitable[None]]:
    """Return a handler that puts the controller's events into a run's stream and its compactions into the trace."""

    async def tell(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            with ctx.tracer.start_as_current_span(SPAN_NAME) as span:
                span.set_attributes(_attributes(event))
        if ctx.in_durable_context:
            return  # what is replayed there must not depend on who listens
        with suppress(UserError):  # a context that was made by hand, between two runs, has no stream
            await ctx.emit(status_of(event))

    return tell


def _attributes(event: CompactionFinished) -> dict[str, str | int | bool]:
    return {
        "gen_ai.conversation.compacted": True,
        "compaction.strategy": "compaction_hooks",
        "compaction.reason": str(event.reason),
        "compaction.messages_before": event.messages_before,
        "compaction.messages_after": event.messages_after,
        "compaction.tokens_before": event.tokens_before,
        "compaction.tokens_after": event.tokens_after,
    }
