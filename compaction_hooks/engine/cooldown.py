"""Why no summary is asked for at present."""

from __future__ import annotations

from compaction_hooks.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class KnownOverflow:
    """A history that no strategy made fit: another summary of the same would not either, and would have to be paid for.

    Attributes:
        log: The facts that history was read into; an edited one gets new ones.
        until: While the context is smaller than this (tokens of the model), it is the same.
        window: The window it did not fit, in tokens.
    """

    log: object
    until: int
    window: int


@dataclass(slots=True)
class Breaker:
    """Counts the summariser's failures in a row; open, it keeps it from being asked."""

    failures: int = 0
    opened_at: float | None = None
    why: str = ""

    def record_failure(self, why: str, limit: int, now: float) -> None:
        """Count a failure at `now` (monotonic seconds); the `limit`-th in a row opens the breaker, as does a failed trial."""
        self.failures += 1
        self.why = why
        if self.failures >= limit:
            self.opened_at = now

    def record_success(self) -> None:
        """Close the breaker."""
        self.failures, self.opened_at, self.why = 0, None, ""

    def allows(self, now: float, cooldown_seconds: float) -> bool:
        """Whether the summariser may be asked at `now`: closed, or open long enough for one trial; a clock set back ends it."""
        return self.opened_at is None or not 0 <= now - self.opened_at < cooldown_seconds
