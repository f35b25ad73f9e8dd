"""Events: reports of compactions and failures, for people and for tracing. They carry numbers and names, never message text.

`str(event)` is the line of the log, with the whole id of the session. Only `CompactionFinished.record` quotes the conversation,
in its summary; no `str`, `repr` or log line of an event shows it.

Every event names its conversation (`session_id`), and the events of a compaction its occasion (`reason`); durations are in
seconds, from the start of the attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from compaction_hooks.messages import Usage, Value
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.record import CompactionRecord

__all__ = [
    "CompactionEvent",
    "CompactionFailed",
    "CompactionFinished",
    "CompactionSkipped",
    "CompactionStarted",
    "ContextPressure",
    "EventHandler",
    "HostCallFailed",
    "PinMissing",
    "StoreFailed",
]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Event(Value):
    """An event of one conversation.

    Attributes:
        version: The version of all events, for programs that store them. It changes when a field goes, or gets another name, type
            or meaning; not for a new field or a new event.
        session_id: The conversation.
    """

    version: ClassVar[int] = 1
    session_id: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _EventOfCompaction(_Event):
    """An event of one compaction.

    Attributes:
        reason: Its occasion.
    """

    reason: CompactionReason


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _EndOfCompaction(_EventOfCompaction):
    """An event that ends an attempt to compact.

    Attributes:
        duration_seconds: From start to finish, the summarizer's time included.
        usage: The tokens that its summaries cost, discarded ones too; an estimate if the summarizer did not count them. None if no
            summarizer answered, and zero if the default one did.
    """

    duration_seconds: float = 0.0
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionStarted(_EventOfCompaction):
    """A compaction begins; the host may show "compacting...".

    Attributes:
        why: The reason that the trigger gave, or an empty text if no trigger was asked.
        tokens_before: Size of the context in tokens, as estimated or as the provider counted it.
        messages_before: Messages in the view that is too large.
        trigger_tokens: The active threshold, or None if the window is unknown.
        context_window: The model's window in tokens, or None if unknown.
    """

    tokens_before: int
    messages_before: int
    trigger_tokens: int | None
    context_window: int | None
    why: str = ""

    def __str__(self) -> str:
        size = f"{self.tokens_before:,} tokens in {self.messages_before:,} messages"
        return _line(self.session_id, f"compacting ({self.reason}), {size}")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionFinished(_EndOfCompaction):
    """A compaction succeeded and its record was made.

    Attributes:
        tokens_before, tokens_after: Size of the context in tokens.
        messages_before, messages_after: Messages in the view.
        compacted_messages: Host messages that the summary covers.
        unseen_messages: The part of these that no summarizer read: they are summarized by rule.
        summary_messages: Messages that hold the summary: 1, or 0 if only tool results were cleared.
        used_fallback: Whether the summarizer failed in this attempt, so that the summary or its last part is made by rule, or there
            is none.
        fallback_reason: Its error, or the reason why the provider gave no native summary; "" without a failure.
        native_summaries: Summaries of the provider's own among the newly covered messages: ours updates them, and those that only
            the provider can read stay in front of ours.
        left_out: Images, documents and sounds that the view replaces by a line with their names.
        overruled_veto: The veto of `before_compact`, if the compaction was made all the same: after an overflow, or of a view above
            the input limit; else "".
        record: The record. Its summary quotes the conversation; `repr` leaves it out.
    """

    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    compacted_messages: int
    summary_messages: int
    used_fallback: bool
    record: CompactionRecord = field(repr=False)
    unseen_messages: int = 0
    native_summaries: int = 0
    left_out: int = 0
    fallback_reason: str = ""
    overruled_veto: str = ""

    def __str__(self) -> str:
        tokens = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return _line(self.session_id, f"compacted ({self.reason}), {tokens} in {self.duration_seconds:,.1f} s")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionSkipped(_EndOfCompaction):
    """A compaction was due and was not made; unless the caller aborted it, the context still fits the window by estimate.

    Attributes:
        why: "aborted", "nothing to summarize", "breaker open", "undone"; "vetoed:" with the reason that `before_compact` gave
            (told once: it holds until the user's next message); "the history was changed meanwhile" (it is tried again at
            once); "left to the server" with the option of the request that makes it compact (reported once, and for each order
            of the model's tool); "no progress" while the context has hardly grown since the last compaction; the rejection of
            the best candidate: "no gain", "too large" or "invalid:" with the rule that it breaks; "no media to leave out" after
            a request that was too large in bytes.
        tokens: Size of the view that is returned, in tokens.
    """

    why: str
    tokens: int

    def __str__(self) -> str:
        return _line(self.session_id, f"not compacted ({self.reason}), {self.tokens:,} tokens: {self.why}")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompactionFailed(_EndOfCompaction):
    """A compaction failed.

    Attributes:
        error: Type and text of the error, without message text of the conversation.
        tokens: Size of the view that is returned, in tokens.
        is_over_window: Whether the view is larger than the window: the provider will reject it.
        is_breaker_open: Whether the circuit breaker is now open.
    """

    error: str
    tokens: int
    is_over_window: bool
    is_breaker_open: bool

    def __str__(self) -> str:
        over = " do not fit the context window" if self.is_over_window else ""
        return _line(self.session_id, f"compaction failed ({self.reason}), {self.tokens:,} tokens{over}: {self.error}")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ContextPressure(_Event):
    """The view passed 80 % of the trigger, and no compaction is due yet; once until the next one.

    Attributes:
        tokens: Size of the view in tokens, as estimated or as the provider counted it.
        trigger_tokens: The active threshold.
        context_window: The model's window in tokens.
        is_model_told: Whether the view of this very call has the notice; False if there is none, or if it has to wait.
    """

    tokens: int
    trigger_tokens: int
    context_window: int
    is_model_told: bool

    def __str__(self) -> str:
        told = ", the model is told" if self.is_model_told else ""
        return _line(self.session_id, f"{self.tokens:,} of {self.trigger_tokens:,} tokens before a compaction{told}")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoreFailed(_Event):
    """The store failed, or held a record that cannot be read; the agent's run goes on.

    Attributes:
        action: The request to the store; "read" if one of its records is damaged or from a later version, and is skipped.
        error: Type and text of the error.
    """

    action: Literal["load", "save", "remove", "read"]
    error: str

    def __str__(self) -> str:
        happened = "a record was skipped" if self.action == "read" else f"the store failed to {self.action} records"
        return _line(self.session_id, f"{happened}: {self.error}")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PinMissing(_Event):
    """The list does not have all pinned messages. The pins stay: they apply as soon as a list has the messages.

    Attributes:
        count: How many pinned messages the list does not have.
    """

    count: int

    def __str__(self) -> str:
        return _line(self.session_id, f"{self.count:,} pinned messages are not in the list")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HostCallFailed(_Event):
    """A function of the host that a compaction asks failed, took too long or answered nonsense; the compaction goes on without it.

    Attributes:
        which: The function, by the keyword that takes it.
        error: Type and text of the error.
    """

    which: Literal["carry", "before_compact"]
    error: str

    def __str__(self) -> str:
        return _line(self.session_id, f"`{self.which}` of the host failed: {self.error}")


CompactionEvent: TypeAlias = (
    CompactionStarted
    | CompactionFinished
    | CompactionSkipped
    | CompactionFailed
    | ContextPressure
    | StoreFailed
    | PinMissing
    | HostCallFailed
)
"""Any event that a handler gets."""
EventHandler: TypeAlias = Callable[[CompactionEvent], Awaitable[None] | None]
"""A sync or async callable, for `on_event=`."""


def _line(session_id: str, text: str) -> str:
    """Return the line of an event: the id of the session, whole and without line breaks, and the text."""
    return f"{' '.join(session_id.split())}: {text}"
