"""When a conversation may be compacted again: the pause, the circuit breaker, and what the provider taught about its limits.

1. After a compaction the threshold is ignored until the context has grown (`Pause`); a view that may not fit ends that.
2. A summarizer that failed several times in a row is not asked for some time (`Breaker`); a compaction by hand asks it.
3. A list that no strategy made fit is not paid for again until it has changed (`UnfitList`).
4. A turn that the cap of large windows spares is not looked at again (`spared`): all that could be covered was.
5. A veto of the host holds until the user's next message (`veto`); above the input limit, and by hand, it does not.
6. An overflow that nobody reported (`has_overflowed`) is cured before the next call; only a compaction resets it.
"""

from __future__ import annotations

from typing import NamedTuple

from compaction_hooks.history import UserRequest
from compaction_hooks.messages import M
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO
from compaction_hooks.view.snapshot import Snapshot


class Pause(NamedTuple):
    """No threshold compaction until the context has grown.

    Attributes:
        until: The size below which it holds, in tokens of the model.
        why: The reason, for events.
        window: It is for models with this window, in tokens.
    """

    until: int
    why: str
    window: int


class UnfitList(NamedTuple):
    """A history that no strategy made fit. Another summary would cost money and not fit either.

    Attributes:
        log: The log of the history; an edited history has a new log.
        until: The history counts as the same while the context is smaller than this, in tokens of the model.
        window: The window that it did not fit, in tokens.
    """

    log: object
    until: int
    window: int

    def is_of(self, snapshot: Snapshot[M], window: int) -> bool:
        """Whether this is what is known of a view that does not fit this window."""
        is_same = self.log is snapshot.history.log and self.window == window
        return is_same and not snapshot.fits_window and snapshot.tokens < self.until


class Breaker(NamedTuple):
    """A circuit breaker: counts the summarizer's failures in a row, and prevents calls to it while open."""

    failures: int = 0
    opened_at: float | None = None
    why: str = ""

    def after_failure(self, why: str, limit: int, now: float) -> Breaker:
        """Return the breaker after a failure at `now` (monotonic seconds). The `limit`-th in a row opens it, and a failed trial."""
        failures = self.failures + 1
        return Breaker(failures, now if failures >= limit else self.opened_at, why)

    def allows(self, now: float, cooldown_seconds: float) -> bool:
        """Whether the summarizer may be called at `now`: the breaker is closed, or open long enough for a trial."""
        return self.opened_at is None or now - self.opened_at >= cooldown_seconds


class Cooldown:
    """When a conversation may be compacted again.

    Attributes:
        pause: The newest pause, or None: nothing was compacted in this process.
        breaker: Prevents calls to a failing summarizer.
        unfit_list: A history that could not be made to fit, or None.
        spared: The user's request whose turn stays whole above the cap of large windows; None: there is none.
        veto: The user's request under which the host vetoed; None: it did not.
        has_overflowed: The provider accepted more than the window silently: compact before the next call.
        max_chars: The most characters in the messages of a request that the provider does not refuse for its bytes, learned from a
            refusal; None: unknown.
    """

    def __init__(self) -> None:
        self.pause: Pause | None = None
        self.breaker = Breaker()
        self.unfit_list: UnfitList | None = None
        self.spared: UserRequest | None = None
        self.veto: UserRequest | None = None
        self.has_overflowed = False
        self.max_chars: int | None = None

    def reason_to_wait(self, snapshot: Snapshot[M]) -> str:
        """Return why a due threshold compaction is skipped for now, or an empty string."""
        pause = self.pause
        if not snapshot.surely_fits_window:
            return ""
        if pause is None:  # continue the pause that the record tells of
            settled = int(snapshot.record.tokens_after * (1 + MINIMUM_GROWTH_RATIO)) if snapshot.record else 0
            return "no progress" if snapshot.tokens < settled else ""
        return pause.why if snapshot.window == pause.window and snapshot.tokens < pause.until else ""

    def is_spared(self, snapshot: Snapshot[M]) -> bool:
        """Whether the present turn of a view above the cap of large windows is known to need all of it."""
        return UserRequest.of(snapshot.history).is_same(self.spared)

    def is_vetoed(self, snapshot: Snapshot[M]) -> bool:
        """Whether a veto still holds for a view that is due."""
        return not snapshot.exceeds_input_limit and UserRequest.of(snapshot.history).is_same(self.veto)
