"""Why a compaction that is due waits, and why one cannot wait."""

from __future__ import annotations

from typing import NamedTuple

from compaction_hooks.messages import M
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO
from compaction_hooks.view.snapshot import Snapshot


class KnownOverflow(NamedTuple):
    """A history that no strategy made fit: another summary of the same would not either, and would have to be paid for.

    Attributes:
        log: The facts that history was read into; an edited one gets new ones.
        until: While the context is smaller than this (tokens of the model), it is the same.
        window: The window it did not fit, in tokens.
    """

    log: object
    until: int
    window: int


class Breaker:
    """Counts the summariser's failures in a row; open, it keeps it from being asked."""

    def __init__(self) -> None:
        self.failures = 0
        self.opened_at: float | None = None
        self.why = ""

    def record_failure(self, why: str, limit: int, now: float) -> None:
        """Count a failure at `now` (monotonic seconds); the `limit`-th in a row opens the breaker, as does a failed trial."""
        self.failures += 1
        self.why = why
        if self.failures >= limit:
            self.opened_at = now

    def allows(self, now: float, cooldown_seconds: float) -> bool:
        """Whether the summariser may be asked at `now`: closed, or open long enough for one trial."""
        return self.opened_at is None or now - self.opened_at >= cooldown_seconds


class Cooldown:
    """When a conversation may be compacted again.

    Attributes:
        until: While the context is smaller than this (tokens of the model) and fits the window, no threshold compaction.
        why: The reason for that, for events.
        window: The window that this holds for, in tokens; None: nothing was compacted in this process.
        breaker: Keeps a failing summarizer from being asked.
        known_overflow: A history that could not be made to fit, or None.
        has_overflowed: The provider accepted more than the window silently: compact before the next call.
        max_chars: A request whose messages have more characters is refused for its bytes, as a refusal told; None: unknown.
    """

    def __init__(self) -> None:
        self.until = 0
        self.why = ""
        self.window: int | None = None
        self.breaker = Breaker()
        self.known_overflow: KnownOverflow | None = None
        self.has_overflowed = False
        self.max_chars: int | None = None

    def begin(self, until: int, why: str, window: int) -> None:
        """Put threshold compaction off until the context is this large (tokens), for models with this window."""
        self.until, self.why, self.window = until, why, window

    def reason_to_wait(self, snapshot: Snapshot[M]) -> str:
        """Return why a threshold compaction is put off while the view still fits; empty when it is not."""
        if not snapshot.fits_window:
            return ""
        if self.window is None:
            settled = int(snapshot.record.tokens_after * (1 + MINIMUM_GROWTH_RATIO)) if snapshot.record else 0
            return "no progress" if snapshot.tokens < settled else ""
        return self.why if snapshot.window == self.window and snapshot.tokens < self.until else ""
