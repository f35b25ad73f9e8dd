"""What happened, for people and for tracing. Events carry numbers and names, never message text.

`str(event)` is the line that the log has, of 80 columns unless an error has more to say. Only `CompactionFinished.record` quotes
the conversation, in its summary; no `str`, `repr` or log line of an event shows it.

Every event names its conversation (`session_id`), and those of a compaction what was the occasion (`reason`); durations are in
seconds, from the start of the attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from compaction_hooks.messages import Usage
from compaction_hooks.view.record import CompactionReason, CompactionRecord

LINE_CHARS: Final = 80
"""An event's line has so many characters at most, if its figures and its error leave the session's id 12 of them."""
SHORTEST_ID_CHARS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A compaction begins; the host may show "compacting...".

    Attributes:
        session_id: The conversation.
        why: The reason that the trigger gave, or an empty text if no trigger was asked.
        tokens_before: Size of the context in tokens, as estimated or as the provider counted it.
        messages_before: Messages in the view that is too large.
        trigger_tokens: The threshold in force, or None when the window is unknown.
        context_window: The model's window in tokens, or None when unknown.
    """

    session_id: str
    reason: CompactionReason
    tokens_before: int
    messages_before: int
    trigger_tokens: int | None
    context_window: int | None
    why: str = ""

    def __str__(self) -> str:
        size = f"{self.tokens_before:,} tokens in {self.messages_before:,} messages"
        return _line(self.session_id, f"compacting ({self.reason}), {size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFinished:
    """A compaction succeeded and its record was made.

    Attributes:
        tokens_before, tokens_after: Size of the context in tokens.
        messages_before, messages_after: Messages in the view.
        compacted_messages: Host messages that the summary covers.
        unseen_messages: Of these, messages that no summariser was shown: they are summarised by rule.
        summary_messages: Messages that hold the summary: 1, or 0 when only tool results were cleared.
        duration_seconds: From start to finish, the summariser's time included.
        usage: What the summary cost, or None when unknown or free.
        used_fallback: Whether the summariser failed in this very attempt and the rungs that need no model were used.
        left_out: Images, documents and sounds in whose place the view has a line that names them.
        record: The record. Its summary quotes the conversation; `repr` leaves it out.
    """

    session_id: str
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    compacted_messages: int
    summary_messages: int
    duration_seconds: float
    usage: Usage | None
    used_fallback: bool
    record: CompactionRecord = field(repr=False)
    unseen_messages: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        tokens = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return _line(self.session_id, f"compacted ({self.reason}), {tokens} in {self.duration_seconds:,.1f} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSkipped:
    """A compaction was due and was not made; unless the caller aborted it, the context still fits the window by estimate.

    Attributes:
        why: "aborted", "nothing to summarize", "breaker open", "undone"; "the history was changed meanwhile", where it is tried
            again at once; "no progress" while the context has hardly grown since the last compaction; or what was wrong with the
            best result there was: "no gain", "too large" or "invalid:" with the rule it would have broken; "no media to leave out"
            after a request that was too large in bytes.
        tokens: Size of the context that is handed out, in tokens.
        usage: What a summary cost that was thrown away, or None.
    """

    session_id: str
    reason: CompactionReason
    why: str
    tokens: int
    duration_seconds: float = 0.0
    usage: Usage | None = None

    def __str__(self) -> str:
        return _line(self.session_id, f"not compacted ({self.reason}), {self.tokens:,} tokens: {self.why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed:
    """Something went wrong.

    Attributes:
        error: Type and text of what failed, without message text of the conversation.
        tokens: Size of the context that is handed out, in tokens.
        is_over_window: Whether the list that was handed out is larger than the window: the provider will reject it.
        is_breaker_open: Whether the circuit breaker is now open.
        usage: What failed attempts cost, or None.
    """

    session_id: str
    reason: CompactionReason
    error: str
    tokens: int
    is_over_window: bool
    is_breaker_open: bool
    duration_seconds: float = 0.0
    usage: Usage | None = None

    def __str__(self) -> str:
        over = " do not fit the context window" if self.is_over_window else ""
        return _line(self.session_id, f"compaction failed ({self.reason}), {self.tokens:,} tokens{over}: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed:
    """The store could not do what was asked, or held a record that cannot be read; the run goes on.

    Attributes:
        session_id: The conversation.
        action: What was asked of it; "read" when a record it gave is damaged or from a later version, and is passed over.
        error: Type and text of what failed.
    """

    session_id: str
    action: Literal["load", "save", "remove", "read"]
    error: str

    def __str__(self) -> str:
        happened = "a record was skipped" if self.action == "read" else f"the store failed to {self.action} records"
        return _line(self.session_id, f"{happened}: {self.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinMissing:
    """Messages were pinned that the next list does not have. The pins stay: they hold as soon as a list has the messages.

    Attributes:
        session_id: The conversation.
        count: How many pinned messages the list does not have.
    """

    session_id: str
    count: int

    def __str__(self) -> str:
        return _line(self.session_id, f"{self.count:,} pinned messages are not in the list")


CompactionEvent: TypeAlias = (
    CompactionStarted | CompactionFinished | CompactionSkipped | CompactionFailed | StoreFailed | PinMissing
)
EventHandler: TypeAlias = Callable[[CompactionEvent], Awaitable[None] | None]


def _line(session_id: str, text: str) -> str:
    """Return a line on a conversation; an id that is too long for the line loses its end."""
    most = max(LINE_CHARS - len(": ") - len(text), SHORTEST_ID_CHARS)
    name = " ".join(session_id.split())
    return f"{name if len(name) <= most else name[: most - 1] + '…'}: {text}"
