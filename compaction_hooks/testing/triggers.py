"""Check of the contract of `Trigger`, for the author of a trigger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from compaction_hooks.triggers import Due, Prices, Trigger

WINDOWS: Final = (1_024, 16_384, 200_000, 1_000_000)
FILLS: Final = (0.0, 0.05, 0.3, 0.6, 0.85, 0.95, 1.0, 1.3)
"""Sizes of the view, as shares of the window; a view may be larger than the window."""
IDLE_SECONDS: Final = (None, 0.0, 45.0, 400.0, 4_000.0, 1_000_000.0)
CACHED: Final = (None, 0.0, 0.5, 1.0)
"""Shares of the view that the provider read from its cache."""
PRICES: Final = (None, Prices(1.25, 0.125, 10.0), Prices(0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """A snapshot with only the figures that triggers read."""

    tokens: int
    window: int
    input_limit: int
    model: str | None
    message_count: int
    cached_tokens: int | None
    seconds_since_last_call: float | None
    prices: Prices | None


def check_trigger(trigger: Trigger) -> None:
    """Check that a trigger keeps the contract of `Trigger`, on some 2,300 snapshots, from empty to larger than the window.

    - It returns `Due(...)` or None, and never raises, even if the view is empty or prices, cache or time are unknown.
    - It returns the same for the same figures, independently of earlier calls.
    - It is due above `input_limit`, where a compaction is due whatever it says. Combine yours: `yours | ReserveTrigger()`.

    Raises:
        AssertionError: the contract is broken; the text names the broken rule and the figures.
    """
    assert callable(getattr(trigger, "due", None)), f"{type(trigger).__name__} is no Trigger: it lacks due(snapshot)"

    snapshots = [*_snapshots()]
    answers = [_answer(trigger, snapshot) for snapshot in snapshots]
    for snapshot, before in zip(reversed(snapshots), reversed(answers), strict=True):
        now = _answer(trigger, snapshot)
        assert now == before, (
            f"due() must answer the same to the same figures, but gave {before}, then {now}: {snapshot}"
        )

    for snapshot, answer in zip(snapshots, answers, strict=True):
        assert answer or snapshot.tokens <= snapshot.input_limit, (
            f"due() must be due above input_limit: combine it as `yours | ReserveTrigger()`: {snapshot}"
        )


def _answer(trigger: Trigger, snapshot: _Figures) -> Due | None:
    try:
        answer: object = trigger.due(snapshot)
    except Exception as error:
        raise AssertionError(f"due() must not raise, but raised {type(error).__name__}: {error}: {snapshot}") from error
    assert answer is None or isinstance(answer, Due), f"due() must answer Due(...) or None, not {answer!r}: {snapshot}"
    return answer


def _snapshots() -> Iterator[_Figures]:
    for window, fill, idle, cached, prices in product(WINDOWS, FILLS, IDLE_SECONDS, CACHED, PRICES):
        tokens = int(window * fill)
        yield _Figures(
            tokens=tokens,
            window=window,
            input_limit=window if idle is None else window // 2,
            model=None if prices is None else "gpt-5",
            message_count=tokens // 200,
            cached_tokens=None if cached is None else int(tokens * cached),
            seconds_since_last_call=idle,
            prices=prices,
        )
