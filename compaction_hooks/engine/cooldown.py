"""When a conversation may be compacted again: the cooldown, the circuit breaker, and overflows known to have no cure."""

from __future__ import annotations

import copy
from typing import NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO
from compaction_hooks.view.snapshot import Snapshot


class KnownOverflow(NamedTuple):
    """A history that no strategy made fit. Another summary would cost money and not fit either.

    Attributes:
        log: The log of the history; an edited history has a new log.
        until: The history counts as the same while the context is smaller than this, in tokens of the model.
        window: The window that it did not fit, in tokens.
    """

    log: object
    until: int
    window: int


class Breaker:
    """A circuit breaker: counts the summarizer's failures in a row, and prevents calls to it while open."""

    def __init__(self) -> None:
        self.failures = 0
        self.opened_at: float | None = None
        self.why = ""

    def record_failure(self, why: str, limit: int, now: float) -> None:
        """Count a failure at `now` (monotonic seconds). The `limit`-th in a row opens the breaker, and so does a failed trial."""
        self.failures += 1
        self.why = why
        if self.failures >= limit:
            self.opened_at = now

    def allows(self, now: float, cooldown_seconds: float) -> bool:
        """Whether the summarizer may be called at `now`: the breaker is closed, or open long enough for a trial."""
        return self.opened_at is None or now - self.opened_at >= cooldown_seconds


class Cooldown:
    """When a conversation may be compacted again.

    Attributes:
        until: No threshold compaction while the context is smaller than this (tokens of the model) and surely fits the window.
        why: The reason for the cooldown, for events.
        window: The cooldown is for models with this window, in tokens; None: nothing was compacted in this process.
        breaker: Prevents calls to a failing summarizer.
        known_overflow: A history that could not be made to fit, or None.
        has_overflowed: The provider accepted more than the window silently: compact before the next call.
        max_chars: The most characters in the messages of a request that the provider does not refuse for its bytes, learned from a
            refusal; None: unknown.
    """

    def __init__(self) -> None:
        self.until = 0
        self.why = ""
        self.window: int | None = None
        self.breaker = Breaker()
        self.known_overflow: KnownOverflow | None = None
        self.has_overflowed = False
        self.max_chars: int | None = None

    def copy(self) -> Cooldown:
        """Return a cooldown with the same state; changes of one do not change the other."""
        same = copy.copy(self)
        same.breaker = copy.copy(self.breaker)
        return same

    def begin(self, until: int, why: str, window: int) -> None:
        """Skip threshold compaction until the context is this large (tokens), for models with this window."""
        self.until, self.why, self.window = until, why, window

    def reason_to_wait(self, snapshot: Snapshot[M]) -> str:
        """Return why a due threshold compaction is skipped for now, or an empty string."""
        if not snapshot.surely_fits_window:
            return ""
        if self.window is None:
            # Nothing was compacted in this process: continue the cooldown of the record.
            settled = int(snapshot.record.tokens_after * (1 + MINIMUM_GROWTH_RATIO)) if snapshot.record else 0
            return "no progress" if snapshot.tokens < settled else ""
        return self.why if snapshot.window == self.window and snapshot.tokens < self.until else ""
