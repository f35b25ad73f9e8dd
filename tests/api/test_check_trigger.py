"""`compaction_hooks.testing.check_trigger`: whether a trigger keeps its contract."""

from typing import Any

import pytest

from compaction_hooks.testing import check_trigger
from compaction_hooks.triggers import Due, RatioTrigger, ReserveTrigger, SnapshotFigures, TokensTrigger, Trigger


@pytest.mark.parametrize(
    "trigger", [ReserveTrigger(), RatioTrigger(0.5), TokensTrigger(50_000) | RatioTrigger(0.9)], ids=repr
)
def test_the_triggers_of_the_package_pass(trigger: Trigger) -> None:
    check_trigger(trigger)


class Raises:
    def due(self, snapshot: SnapshotFigures) -> Due | None:
        return Due("cold") if (snapshot.seconds_since_last_call or 0) / snapshot.tokens > 1 else None


class AnswersTrue:
    def due(self, snapshot: SnapshotFigures) -> Any:
        return snapshot.tokens > snapshot.window


class Counts:
    calls = 0

    def due(self, snapshot: SnapshotFigures) -> Due | None:
        self.calls += 1
        return Due("third call") if self.calls % 3 == 0 else None


class NoTarget:
    def due(self, snapshot: SnapshotFigures) -> Due | None:
        return Due("too large", target_tokens=snapshot.tokens // 2)


class NeverAboveTheLimit:
    def due(self, snapshot: SnapshotFigures) -> Due | None:
        return Due("above 90 %") if 0.9 * snapshot.window < snapshot.tokens <= snapshot.input_limit else None


@pytest.mark.parametrize(
    ("trigger", "says"),
    [
        (Raises(), "must not raise, but raised ZeroDivisionError"),
        (AnswersTrue(), r"must answer Due\(...\) or None, not False"),
        (Counts(), "must answer the same to the same figures"),
        (NoTarget(), "must not raise, but raised ConfigurationError: target_tokens=0 must be"),
        (NeverAboveTheLimit(), r"must be due above input_limit.*combine.* \| ReserveTrigger"),
        (0.8, "float is no Trigger"),
    ],
)
def test_a_breach_of_the_contract_is_named(trigger: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_trigger(trigger)
