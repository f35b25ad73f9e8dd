"""The state of a session, for a status line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """How full the context is, for a status line.

    Attributes:
        context_tokens: Size of the list last handed out, in tokens; before the first call that of the list given to `load`, if any.
        context_window: The model's window in tokens; None when unknown.
        trigger_tokens: Above this the next call compacts; None when the window is unknown.
        fraction: `context_tokens / context_window`; None when either is unknown.
        is_estimate: Whether no usage report has measured that list; right after a compaction it is an estimate.
        compaction_count: Compactions that led to the present view.
        breaker: "closed", or "open: " and the reason why the summarizer is not called.
        is_loaded: Whether the store's records are loaded: after the first call or `load()`; without a store always.
    """

    context_tokens: int | None
    context_window: int | None
    trigger_tokens: int | None
    fraction: float | None
    is_estimate: bool
    compaction_count: int
    breaker: str
    is_loaded: bool
