"""`compaction_hooks.testing.check_strategy` and `check_trigger`: whether a strategy or a trigger keeps its contract."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from compaction_hooks.strategies import (
    AnyStrategy,
    Candidate,
    ClearToolResults,
    DropOldest,
    Goal,
    ShortenParts,
    Snapshot,
    Summarize,
    plan_summary,
    shrink,
    shrinkable_parts,
)
from compaction_hooks.testing import check_strategy, check_trigger
from compaction_hooks.triggers import Due, RatioTrigger, ReserveTrigger, SnapshotFigures, TokensTrigger, Trigger
from tests.cases import sampled
from tests.conversations import steps, user

Propose: TypeAlias = Callable[[Snapshot[Any], Goal[Any]], Any]


@pytest.mark.parametrize(
    "strategy", sampled([ClearToolResults(0, 0), ShortenParts(), Summarize(), DropOldest()], 2), ids=repr
)
def test_the_strategies_of_the_package_pass(strategy: AnyStrategy) -> None:
    check_strategy(strategy)


class Own:
    def __init__(self, propose: Propose) -> None:
        self._propose = propose

    def propose(self, snapshot: Snapshot[Any], goal: Goal[Any], /) -> Any:
        return self._propose(snapshot, goal)


def clear_half(snapshot: Snapshot[Any], goal: Goal[Any]) -> Candidate[Any] | None:
    parts = shrinkable_parts(snapshot, goal, results_only=True)
    return shrink(snapshot, goal, [part.reduction() for part in parts[: len(parts) // 2]])


def read_the_former_name(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
    made = clear_half(snapshot, goal)
    return made.projection if made else None


def without_lineage(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
    made = clear_half(snapshot, goal)
    return replace(made, record=replace(made.record, parent="another")) if made else None


def of_another_list(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
    made = clear_half(snapshot, goal)
    return replace(made, record=replace(made.record, covered_digest="0" * 64)) if made else None


def write_into_messages(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
    snapshot.messages[0]["content"] = "changed"


def every_other_time() -> Propose:
    asked: list[object] = []

    def propose(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
        asked.append(goal)
        return clear_half(snapshot, goal) if len(asked) % 2 else None

    return propose


BROKEN: list[tuple[Propose, str]] = [
    (lambda snapshot, goal: 1 / 0, r"propose\(\) must not raise, but raised ZeroDivisionError"),
    (lambda snapshot, goal: snapshot.projection, r"raised AttributeError.*has a new name: `snapshot\.view`"),
    (read_the_former_name, r"raised AttributeError.*has a new name: `candidate\.view`"),
    (lambda snapshot, goal: snapshot.messages, r"propose\(\) must answer Candidate\(\.\.\.\) or None, not \["),
    (write_into_messages, r"propose\(\) must change nothing"),
    (every_other_time(), r"propose\(\) must answer"),
    (without_lineage, "its record must follow the active one"),
    (of_another_list, "its record must give its view"),
    (lambda snapshot, goal: None, "Own never proposed anything: give conversations in which"),
]


@pytest.mark.parametrize(("propose", "says"), BROKEN)
def test_a_broken_strategy_is_told_which_sentence_it_breaks(propose: Propose, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_strategy(Own(propose))


class OwnSummary(Own):
    def from_summary(self, *_: object) -> Any:
        return "a summary"


def test_both_questions_of_a_strategy_that_summarizes_are_checked() -> None:
    with pytest.raises(AssertionError, match=r"propose\(\) must answer SummaryPlan"):
        check_strategy(OwnSummary(clear_half))
    with pytest.raises(AssertionError, match=r"from_summary\(\) must answer Candidate\(...\) or None, not 'a summary'"):
        check_strategy(OwnSummary(lambda snapshot, goal: plan_summary(snapshot, goal)))


def test_an_object_that_is_no_strategy_is_named() -> None:
    with pytest.raises(AssertionError, match=r"function is no Strategy: it lacks propose\(snapshot, goal\)"):
        check_strategy(clear_half)  # type: ignore[arg-type]


def test_a_strategy_for_one_tool_is_checked_on_conversations_that_have_it() -> None:
    def propose(snapshot: Snapshot[Any], goal: Goal[Any]) -> Any:
        results = [part for part in shrinkable_parts(snapshot, goal, results_only=True) if part.tool == "screenshot"]
        return shrink(snapshot, goal, [part.reduction() for part in results[:-1]])

    with pytest.raises(AssertionError, match="Own never proposed anything"):
        check_strategy(Own(propose))
    check_strategy(Own(propose), [[user("Log in."), *steps(20, 300, name="screenshot")]])


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
