"""`compaction_hooks.triggers`: when a conversation is compacted."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionEvent,
    CompactionFinished,
    CompactionReason,
    CompactionSettings,
    CompactionSkipped,
    CompactionStarted,
    Usage,
)
from compaction_hooks.triggers import Due, Prices, RatioTrigger, ReserveTrigger, SnapshotFigures, TokensTrigger, Trigger
from tests.conversations import Clock, controller, talk, user


@dataclass(frozen=True)
class Figures:
    """Figures of a snapshot, as large as its window allows."""

    tokens: int
    window: int = 200_000
    input_limit: int = 200_000
    model: str | None = None
    message_count: int = 10
    cached_tokens: int | None = None
    seconds_since_last_call: float | None = None
    prices: Prices | None = None


@pytest.mark.parametrize(
    ("trigger", "window", "threshold"),
    [
        (ReserveTrigger(), 200_000, 183_616),
        (ReserveTrigger(), 8_192, 6_144),
        (ReserveTrigger(), 65_536, 49_152),
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
    one, two, three = ReserveTrigger(), RatioTrigger(0.5), TokensTrigger(9)
    assert (one | two) | three == one | (two | three)
    assert hash(one | two) == hash(ReserveTrigger() | RatioTrigger(0.5))
    assert repr(ReserveTrigger()) == "ReserveTrigger(tokens=16384)"


# -- a user's own trigger


class OnTheHour:
    """Due when the provider's cache has surely expired."""

    def due(self, snapshot: SnapshotFigures) -> Due | None:
        idle = snapshot.seconds_since_last_call
        return Due("idle for an hour", target_tokens=8_000) if idle is not None and idle >= 3_600 else None


@dataclass
class Seen:
    """A trigger that is never due, and keeps the figures that it saw."""

    figures: list[dict[str, object]] = field(default_factory=list[dict[str, object]])

    def due(self, snapshot: SnapshotFigures) -> Due | None:
        names = [name for name in vars(SnapshotFigures) if not name.startswith("_")]
        self.figures.append({name: getattr(snapshot, name) for name in names})
        return None


def test_a_trigger_of_ones_own_decides_when_and_how_far() -> None:
    events: list[CompactionEvent] = []
    clock = Clock()
    controller = CompactionController(
        context_window=100_000,
        settings=CompactionSettings(trigger=OnTheHour() | RatioTrigger(0.9), keep_recent_tokens=2_000),
        on_event=events.append,
        clock=clock,
    )
    messages = talk(30, 500)
    assert controller.transform_context_sync(messages) is messages
    clock.seconds += 3_599
    messages += talk(1, 500)
    assert controller.transform_context_sync(messages) is messages
    clock.seconds += 3_600
    view = controller.transform_context_sync([*messages, user("Go on.")])
    assert len(view) < len(messages)
    started, finished = events
    assert isinstance(started, CompactionStarted)
    assert (started.why, started.reason) == ("idle for an hour", CompactionReason.THRESHOLD)
    assert isinstance(finished, CompactionFinished)
    assert finished.tokens_before > 30_000
    assert finished.tokens_after <= 8_000


class Always:
    def due(self, snapshot: SnapshotFigures) -> Due | None:
        return Due("always")


@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_context_that_has_hardly_grown_is_not_compacted_again(is_new_process: bool) -> None:
    events: list[CompactionEvent] = []
    settings = CompactionSettings(trigger=Always(), keep_recent_tokens=2_000)
    hooks = controller(100_000, settings=settings, events=events)
    messages = talk(30)
    view = hooks.transform_context_sync(messages)
    finished = events[-1]
    assert isinstance(finished, CompactionFinished)
    if is_new_process:
        records = hooks.session("default").export_records()
        hooks = controller(100_000, settings=settings, events=events)
        hooks.session("default").import_records(records)

    messages += talk(1, finished.tokens_after // 20)
    assert hooks.transform_context_sync(messages) == [*view, *messages[-2:]]
    assert isinstance(events[-1], CompactionSkipped)
    assert events[-1].why == "no progress"
    hooks.transform_context_sync([*messages, *talk(1, 500)])
    assert isinstance(events[-1], CompactionFinished)


def test_a_trigger_sees_the_figures_of_the_view() -> None:
    seen, clock = Seen(), Clock()
    settings = CompactionSettings(trigger=seen, max_output_tokens=10_000)
    controller = CompactionController(model="gpt-x", context_window=100_000, settings=settings, clock=clock)
    messages = talk(3)
    controller.transform_context_sync(messages)
    controller.report_usage(Usage(input_tokens=2_000, cache_read_tokens=1_500))
    clock.seconds += 12
    controller.transform_context_sync(messages)
    first, second = seen.figures
    assert first["cached_tokens"] is first["seconds_since_last_call"] is None
    assert second == {
        "tokens": 2_000,
        "window": 100_000,
        "input_limit": 90_000,
        "model": "gpt-x",
        "message_count": 6,
        "cached_tokens": 1_500,
        "seconds_since_last_call": 12.0,
        "prices": None,
    }


def test_a_trigger_sees_the_models_prices() -> None:
    pytest.importorskip("genai_prices")
    seen = Seen()
    controller = CompactionController(model="openai/gpt-5", settings=CompactionSettings(trigger=seen))
    controller.transform_context_sync(talk(1))
    prices = seen.figures[0]["prices"]
    assert isinstance(prices, Prices)
    assert 0 < prices.cached_input < prices.input < prices.output


def test_a_trigger_that_says_no_does_not_switch_the_window_off() -> None:
    events: list[CompactionEvent] = []
    settings = CompactionSettings(trigger=Seen(), max_output_tokens=4_000)
    hooks = controller(16_000, settings=settings, events=events)
    small, large = talk(25), talk(40)
    assert hooks.transform_context_sync(small) is small
    assert len(hooks.transform_context_sync(large)) < len(large)
    started = next(event for event in events if isinstance(event, CompactionStarted))
    assert (started.reason, started.why) == (CompactionReason.THRESHOLD, "above 12,000 tokens")
    by_hand = controller(16_000, settings=replace(settings, auto_compact=False))
    assert by_hand.transform_context_sync(large) is large


class Broken:
    def __init__(self, answer: object) -> None:
        self._answer = answer

    def due(self, snapshot: SnapshotFigures) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("is_of_one_model", [False, True])
@pytest.mark.parametrize("answer", [ZeroDivisionError("no calls yet"), True])
def test_a_trigger_that_fails_leaves_it_to_the_reserve_and_warns_once(
    answer: object, is_of_one_model: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings: Any = CompactionSettings(trigger=TokensTrigger(15_000) | Broken(answer))
    controller = CompactionController(
        model="gpt-5", context_window=16_000, settings={"gpt-5": settings} if is_of_one_model else settings
    )
    small, large = talk(5), talk(40)
    for _ in range(3):
        assert controller.transform_context_sync(small) is small
    assert len(controller.transform_context_sync(large)) < len(large)
    (warning,) = [record.getMessage() for record in caplog.records if "trigger" in record.getMessage()]
    assert warning.startswith("trigger Broken failed (")
    assert warning.endswith("ReserveTrigger() decides")


def test_the_numbers_are_short_for_triggers() -> None:
    short = CompactionSettings(reserve_tokens=10_000, trigger_ratio=0.8, trigger_tokens=70_000)
    long = CompactionSettings(trigger=ReserveTrigger(10_000) | RatioTrigger(0.8) | TokensTrigger(70_000))
    for window in (16_000, 80_000, 1_000_000):
        for output in (None, 30_000):
            assert short.budget(window, max_output_tokens=output) == long.budget(window, max_output_tokens=output)


def test_a_part_of_an_unknown_window_is_taken_of_the_one_to_assume() -> None:
    settings = CompactionSettings(trigger=RatioTrigger(0.5), default_context_window=10_000)
    controller = CompactionController(model="unheard-of", settings=settings)
    messages = talk(20, 500)
    assert len(controller.transform_context_sync(messages)) < len(messages)
    assert controller.state().trigger_tokens == 5_000
