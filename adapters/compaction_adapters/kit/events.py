"""The controller's events, for a framework's own stream of events. None quotes the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal, TypeAlias

from compaction_hooks import CompactionFailed, CompactionFinished, CompactionSkipped, CompactionStarted
from compaction_hooks.events import CompactionEvent, HostFilesFailed, PinMissing, StoreFailed

Stage: TypeAlias = Literal["started", "finished", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Status:
    """An event in the few words that a status line needs.

    Attributes:
        stage: "skipped" when a compaction was due and was not made, "failed" when something went wrong.
        reason: "threshold", "overflow" or "manual"; "store" when records could not be loaded or saved, "pin" when pinned messages
            are not in the list.
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
        case CompactionStarted():
            return Status("started", str(event.reason), session, event.tokens_before)
        case CompactionFinished():
            reason, seconds = str(event.reason), event.duration_seconds
            return Status("finished", reason, session, event.tokens_after, "", seconds, event.tokens_before)
        case CompactionSkipped():
            return Status("skipped", str(event.reason), session, event.tokens, event.why, event.duration_seconds)
        case CompactionFailed():
            return Status("failed", str(event.reason), session, event.tokens, event.error, event.duration_seconds)
        case StoreFailed():
            return Status("failed", "store", session, detail=f"{event.action}: {event.error}")
        case PinMissing():
            return Status("skipped", "pin", session, detail=f"pinned messages that are not in the list: {event.count}")
        case HostFilesFailed():
            return Status("failed", "host files", session, detail=event.error)


_NAMES: Final[Mapping[type[object], str]] = {
    CompactionStarted: "started",
    CompactionFinished: "finished",
    CompactionSkipped: "skipped",
    CompactionFailed: "failed",
    StoreFailed: "store_failed",
    PinMissing: "pin_missing",
    HostFilesFailed: "host_files_failed",
}


def fields_of(event: CompactionEvent) -> dict[str, object]:
    """Return an event as plain JSON, with all its figures and without its record."""
    # What `repr` leaves out is no figure: the record, and the report that counts the loss.
    values = {one.name: getattr(event, one.name) for one in fields(event) if one.repr and one.name != "usage"}
    found: dict[str, object] = {"type": "compaction", "status": _NAMES[type(event)], **values}
    if isinstance(event, StoreFailed | PinMissing | HostFilesFailed):
        return found
    found["reason"] = str(event.reason)
    if not isinstance(event, CompactionStarted):
        found["usage"] = None if event.usage is None else asdict(event.usage)
    return found
