"""What happened, for people and for tracing. Events carry numbers and names, never message text.

Every event names its conversation (`session_id`), and those of a compaction what was the occasion (`reason`); durations are in
seconds, from the start of the attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from compaction_hooks.messages import Usage
from compaction_hooks.record import CompactionReason, CompactionRecord
from compaction_hooks.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A compaction begins; the host may show "compacting...".

    Attributes:
        session_id: The conversation.
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
        record: The record.
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
    record: CompactionRecord
    unseen_messages: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSkipped:
    """A compaction was due and was not made; unless the caller aborted it, the context still fits the window by estimate.

    Attributes:
        why: "aborted", "nothing to summarise", "breaker open", "undone"; "the history was changed meanwhile", where it is tried
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PinMissing:
    """Messages were pinned that the next list does not have. The pins stay: they hold as soon as a list has the messages.

    Attributes:
        session_id: The conversation.
        count: How many pinned messages the list does not have.
    """

    session_id: str
    count: int


CompactionEvent: TypeAlias = (
    CompactionStarted | CompactionFinished | CompactionSkipped | CompactionFailed | StoreFailed | PinMissing
)
EventHandler: TypeAlias = Callable[[CompactionEvent], Awaitable[None] | None]
