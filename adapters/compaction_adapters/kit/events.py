"""The controller's events, for a framework's own stream of events. None quotes the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, TypeAlias

from compaction_hooks import events
from compaction_hooks.events import CompactionEvent

Stage: TypeAlias = Literal["started", "finished", "skipped", "failed", "near"]
"""The step of a compaction that a status line tells."""


@dataclass
class Status:
    """An event in the few words that a status line needs.

    Attributes:
        stage: "skipped" when a compaction was due and was not made, "failed" when something went wrong, "near" when the context
            nears the threshold.
        reason: "threshold", "overflow", "manual" or "tool"; "store" when records could not be loaded or saved, "pin" when pinned
            messages are not in the list, "carry" or "before_compact" when this function of the host failed.
        session_id: The conversation.
        tokens: Size of the context in tokens: before a compaction begins, or of the view handed out; 0 for store and pin.
        detail: Why the compaction was skipped, or the error; never text of the conversation.
        duration_seconds: Since the compaction began; 0 when it begins.
        tokens_before: Size of the context before a finished compaction, in tokens; None for other stages.
    """

    stage: Stage
    reason: str
    session_id: str
    tokens: int = 0
    detail: str = ""
    duration_seconds: float = 0.0
    tokens_before: int | None = None


def status_of(event: CompactionEvent) -> Status:
    """Return an event in a few words."""
    session = event.session_id
    match event:
        case events.CompactionStarted():
            return Status("started", str(event.reason), session, event.tokens_before)
        case events.CompactionFinished():
            reason, seconds = str(event.reason), event.duration_seconds
            return Status("finished", reason, session, event.tokens_after, "", seconds, event.tokens_before)
        case events.CompactionSkipped():
            return Status("skipped", str(event.reason), session, event.tokens, event.why, event.duration_seconds)
        case events.CompactionFailed():
            return Status("failed", str(event.reason), session, event.tokens, event.error, event.duration_seconds)
        case events.ContextPressure():
            return Status("near", "threshold", session, event.tokens)
        case events.StoreFailed():
            return Status("failed", "store", session, detail=f"{event.action}: {event.error}")
        case events.PinMissing():
            return Status("skipped", "pin", session, detail=f"pinned messages that are not in the list: {event.count}")
        case events.HostCallFailed():
            return Status("failed", event.which, session, detail=event.error)


_NAMES: Final[Mapping[str, str]] = {
    "CompactionStarted": "started",
    "CompactionFinished": "finished",
    "CompactionSkipped": "skipped",
    "CompactionFailed": "failed",
    "ContextPressure": "context_pressure",
    "StoreFailed": "store_failed",
    "PinMissing": "pin_missing",
    "HostCallFailed": "host_call_failed",
}
"""By class of event: its name in a framework's stream."""


def fields_of(event: CompactionEvent) -> dict[str, object]:
    """Return an event as plain JSON, with all its figures and without its record."""
    # What `repr` leaves out is no figure: the record.
    values = {one.name: getattr(event, one.name) for one in fields(event) if one.repr and one.name != "usage"}
    found: dict[str, object] = {"type": "compaction", "status": _NAMES[type(event).__name__], **values}
    if "reason" in found:
        found["reason"] = str(found["reason"])
    usage = getattr(event, "usage", None)
    return {**found, "usage": usage and asdict(usage)} if hasattr(event, "usage") else found
