"""Corrections of an estimator from usage reports: real tokens per estimated one, and tokens that no message shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

MINIMUM_GROWTH_TOKENS: Final = 1_000
"""Estimated tokens a view must have grown by before the ratio learns: in less, the frames of messages outweigh their text."""
MINIMUM_RATIO: Final = 0.5
MAXIMUM_RATIO: Final = 3.0
"""The ratio stays between the two, under any report. Measured: 0.55 (o200k_base, Chinese) to 1.06 (Claude)."""
FALL_RATE: Final = 0.15
"""The part of the way that the ratio follows a lesson down. It rises at once: too high costs a compaction, too low an overflow.

Measured on recorded requests to Claude: at 0.25 the first request after a compaction is off by 4.2 % (median) and 10.7 % (95th
percentile), since one large file that is estimated too high takes the ratio down for all else; at 0.15 by 3.5 % and 8.9 %.
"""
PRIOR_TOKENS: Final = 2_000
"""Weight of the estimate itself, in estimated tokens of growth, so that one hidden reminder is not taken for a ratio."""
MEMORY_TOKENS: Final = 30_000
"""Estimated tokens of growth that are remembered; older growth fades, so that a change of text or of tokenizer is noticed."""


class Calibration(NamedTuple):
    """The prediction of one model's count: `overhead_tokens + ratio * estimate`. A value; learning makes a new one.

    The ratio is learned from the growth of a view between two reports only: hidden text in front of the messages cancels
    out. A single report cannot tell a heavy tokenizer from a long system prompt: its excess goes to the overhead.

    Attributes:
        ratio: Tokens the provider counts per estimated token.
        overhead_tokens: Tokens of every request that the estimate does not see: a system prompt and tools the host keeps to itself.
        overhead_seen_at: Estimate of the view the overhead was read from; None while there was none. The smaller, the truer.
        overhead_counted: The provider's count of that view.
        grown_estimated: Growth the ratio was learned from, in estimated tokens, the prior included and the past faded.
        grown_counted: The same growth in the provider's tokens.
        pending_estimated: Growth that is too little to learn from so far, in estimated tokens.
        pending_counted: The same growth in the provider's tokens.
    """

    ratio: float = 1.0
    overhead_tokens: int = 0
    overhead_seen_at: int | None = None
    overhead_counted: int = 0
    grown_estimated: float = PRIOR_TOKENS
    grown_counted: float = PRIOR_TOKENS
    pending_estimated: int = 0
    pending_counted: int = 0

    def predict(self, estimated: int) -> int:
        """Return the count to expect from the provider for a view of `estimated` tokens, rounded up."""
        return self.overhead_tokens + self.predict_growth(estimated)

    def predict_growth(self, estimated: int) -> int:
        """Return the count to expect for `estimated` tokens added to a view that the provider has counted, rounded up."""
        return math.ceil(self.ratio * estimated)

    def observe(self, *, estimated: int, counted: int) -> Calibration:
        """Return the calibration that has learned the count of a whole view.

        The overhead becomes the excess of the count over the estimate, when the view is the smallest so far or the excess the
        largest: it rises at once and falls only on better evidence. Afterwards `predict(estimated) >= counted`.
        """
        excess = _excess(counted, self.ratio, estimated)
        is_truest = self.overhead_seen_at is None or estimated <= self.overhead_seen_at
        if not is_truest and excess <= self.overhead_tokens:
            return self
        return self._replace(overhead_tokens=excess, overhead_seen_at=estimated, overhead_counted=counted)

    def observe_growth(self, *, estimated: int, counted: int) -> Calibration:
        """Return the calibration that has learned the growth of a view between two reports; `observe` the whole view as well.

        Growth that adds up to less than `MINIMUM_GROWTH_TOKENS` waits. A view that shrank by either number is not the same view:
        nothing is learned from it.
        """
        if estimated < 0 or counted < 0:
            return self._replace(pending_estimated=0, pending_counted=0)

        estimated += self.pending_estimated
        counted += self.pending_counted
        if estimated < MINIMUM_GROWTH_TOKENS:
            return self._replace(pending_estimated=estimated, pending_counted=counted)

        grown, counted_growth = self.grown_estimated + estimated, self.grown_counted + counted
        fade = min(1.0, MEMORY_TOKENS / grown)
        lesson = _clamp(counted_growth / grown)
        # Up at once, down a part of the way: see FALL_RATE.
        ratio = max(lesson, self.ratio + FALL_RATE * (lesson - self.ratio))

        seen_at = self.overhead_seen_at
        return self._replace(
            ratio=ratio,
            overhead_tokens=0 if seen_at is None else _excess(self.overhead_counted, ratio, seen_at),
            grown_estimated=grown * fade,
            grown_counted=counted_growth * fade,
            pending_estimated=0,
            pending_counted=0,
        )

    def to_dict(self) -> dict[str, float]:
        """Return plain JSON to save with a conversation. It is true of one model and one estimator: save their names with it."""
        saved = {name: getattr(self, name) for name in _SAVED}
        return {name: number for name, number in saved.items() if number is not None}

    @staticmethod
    def from_dict(saved: Mapping[str, object]) -> Calibration:
        """Read the JSON of `to_dict`, within the bounds of learning; a missing value, or one that is no number, is unlearned."""
        known = {name: number for name in _SAVED if (number := _read_number(saved.get(name))) is not None}
        seen_at = known.get("overhead_seen_at")
        grown = min(MEMORY_TOKENS, max(PRIOR_TOKENS, known.get("grown_estimated", PRIOR_TOKENS)))
        ratio = _clamp(known.get("ratio", 1.0))

        return Calibration(
            ratio=ratio,
            overhead_tokens=0 if seen_at is None else math.ceil(known.get("overhead_tokens", 0)),
            overhead_seen_at=None if seen_at is None else math.ceil(seen_at),
            overhead_counted=0 if seen_at is None else math.ceil(known.get("overhead_counted", 0)),
            grown_estimated=grown,
            grown_counted=grown * _clamp(known.get("grown_counted", grown * ratio) / grown),
        )

    def for_another_conversation(self) -> Calibration:
        """Return a calibration with the ratio, which the model has everywhere. The overhead belongs to one conversation."""
        return Calibration(ratio=self.ratio, grown_estimated=self.grown_estimated, grown_counted=self.grown_counted)


UNTAUGHT: Final = Calibration()
"""The calibration before any report: the estimate itself."""


def _excess(counted: int, ratio: float, estimated: int) -> int:
    return max(0, math.ceil(counted - ratio * estimated))


_SAVED: Final = (
    "ratio",
    "overhead_tokens",
    "overhead_seen_at",
    "overhead_counted",
    "grown_estimated",
    "grown_counted",
)
"""The fields worth saving: all but pending growth."""


def _clamp(ratio: float) -> float:
    return min(MAXIMUM_RATIO, max(MINIMUM_RATIO, ratio))


def _read_number(value: object) -> float | None:
    """Return a saved number that can be a count of tokens; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 10**9 else None
