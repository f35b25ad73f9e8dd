"""`compaction_hooks.triggers`: when a conversation is compacted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.triggers import Due, RatioTrigger, ReserveTrigger, TokensTrigger, Trigger


@dataclass(frozen=True)
class Figures:
    """Figures of a snapshot, as large as its window allows."""

    tokens: int
    window: int = 200_000
    input_limit: int = 200_000


@pytest.mark.parametrize(
    ("trigger", "window", "threshold"),
    [
        (ReserveTrigger(), 200_000, 183_616),
        (ReserveTrigger(), 8_192, 6_144),
        (ReserveTrigger(50_000), 200_000, 150_000),
        (RatioTrigger(0.8), 100_000, 80_000),
        (TokensTrigger(50_000), 100_000, 50_000),
        (TokensTrigger(500_000), 100_000, 100_000),
        (RatioTrigger(0.8) | TokensTrigger(70_000), 100_000, 70_000),
        (RatioTrigger(0.8) | TokensTrigger(90_000) | ReserveTrigger(25_000), 100_000, 75_000),
    ],
)
def test_a_trigger_is_due_above_its_threshold(trigger: Trigger, window: int, threshold: int) -> None:
    assert trigger.due(Figures(threshold, window, window)) is None
    assert trigger.due(Figures(threshold + 1, window, window)) == Due(f"above {threshold:,} tokens")


@pytest.mark.parametrize("trigger", [ReserveTrigger(), RatioTrigger(1.0), TokensTrigger(190_000)], ids=repr)
def test_the_room_for_the_answer_stays_free(trigger: Trigger) -> None:
    assert trigger.due(Figures(150_001, input_limit=150_000)) == Due("above 150,000 tokens")


def test_triggers_are_plain_values() -> None:
    assert RatioTrigger(0.5) | TokensTrigger(9) == RatioTrigger(0.5) | TokensTrigger(9)
    assert repr(ReserveTrigger()) == "ReserveTrigger(tokens=16384)"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ReserveTrigger(0), "tokens=0 must be a whole number of tokens above zero"),
        (lambda: RatioTrigger(1.5), "ratio=1.5 must be a number between 0.1 and 1.0"),
        (lambda: TokensTrigger(0.5), "tokens=0.5 must be a whole number of tokens"),  # type: ignore[arg-type]
    ],
)
def test_a_threshold_out_of_bounds_is_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigurationError, match=says):
        make()
