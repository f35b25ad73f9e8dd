"""Clocks that are set back or ahead: no compaction waits for ever, none is made twice, every record can be written and read."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any

import pytest

from compaction_hooks import CompactionFinished, CompactionRecord, SummaryRequest
from compaction_hooks.engine.persistence import STORE_COOLDOWN_SECONDS
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.stores import MemoryStore
from tests.cases import crossed
from tests.conversations import talk, texts
from tests.faults.harness import SIDES, Chat, Side, above_threshold, fallback_settings, raises, rig, works
from tests.faults.test_store_faults import Store, raising

YEAR = 365 * 86_400.0


def standing_still() -> Iterator[Instant]:
    return itertools.repeat(Instant(datetime(2026, 2, 10, tzinfo=UTC), 0.0))


def back_by_a_year_each_time() -> Iterator[Instant]:
    for n in itertools.count():
        yield Instant(datetime(2026, 2, 10, tzinfo=UTC) - timedelta(days=365 * (n % 50)), 0.0)


def ahead_by_a_year_each_time() -> Iterator[Instant]:
    for n in itertools.count():
        yield Instant(datetime(2026, 2, 10, tzinfo=UTC) + timedelta(days=365 * (n % 50)), n * YEAR)


def to_and_fro() -> Iterator[Instant]:
    for n in itertools.count():
        yield Instant(datetime(2026 if n % 2 else 1970, 1, 1, tzinfo=UTC), float(n))


def at_the_ends_of_time() -> Iterator[Instant]:
    ends = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    for n in itertools.count():
        yield Instant(ends[n % 2], 1e300 * min(n, 1))


def in_another_zone() -> Iterator[Instant]:
    return itertools.repeat(Instant(datetime(2026, 2, 10, tzinfo=timezone(timedelta(hours=-11))), 5.0))


CLOCKS = [
    standing_still,
    back_by_a_year_each_time,
    ahead_by_a_year_each_time,
    to_and_fro,
    at_the_ends_of_time,
    in_another_zone,
]


def views_by(clock: Any, side: Side) -> list[str]:
    """Return the texts of the views of a conversation by this clock, whose records and events are right."""
    driven = rig(side, summarizer=works, settings=fallback_settings(), store=MemoryStore(), clock=clock().__next__)
    messages: list[Chat] = above_threshold()
    seen: list[str] = []
    for n in range(20, 40):
        messages = [*messages, *talk(1, 300, first=n)]
        seen.append(texts(driven.transform(messages)))
    for record in driven.session.export_records():
        assert CompactionRecord.from_dict(json.loads(json.dumps(record))).to_dict() == record
    durations = [event.duration_seconds for event in driven.events if isinstance(event, CompactionFinished)]
    assert len(durations) >= 3
    assert min(durations) >= 0, "a duration below zero"
    return seen


@cache
def views_by_a_good_clock(side: Side) -> list[str]:
    return views_by(standing_still, side)


@crossed(clock=CLOCKS, side=SIDES)
def test_a_conversation_is_compacted_as_with_a_good_clock(clock: Any, side: Side) -> None:
    assert views_by(clock, side) == views_by_a_good_clock(side)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("jump", [-YEAR, YEAR], ids=["back", "ahead"])
def test_an_open_breaker_heals_although_the_clock_jumped(jump: float, side: Side) -> None:
    """A clock that went back must not keep it open for as long as it went."""
    is_down = True

    def summarize(request: SummaryRequest) -> str:
        return raises(ConnectionError("down"))(request) if is_down else works(request)

    driven = rig(side, summarizer=summarize, settings=fallback_settings())
    messages = above_threshold()
    for _ in range(3):
        driven.transform(messages)
    assert driven.hooks.state().breaker.startswith("open")
    is_down = False
    driven.clock.jump(jump)
    driven.transform(messages)
    driven.clock.jump(driven.hooks.settings.breaker_cooldown_seconds)
    assert "port the parser" in texts(driven.transform(messages))
    assert driven.hooks.state().breaker == "closed"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("jump", [-YEAR, YEAR], ids=["back", "ahead"])
def test_a_store_is_asked_again_although_the_clock_jumped(jump: float, side: Side) -> None:
    store = Store(raising(ConnectionError("down")))
    driven = rig(side, summarizer=works, settings=fallback_settings(), store=store)
    messages = above_threshold()
    driven.transform(messages)
    store.heal()
    driven.clock.jump(jump)
    driven.transform(messages)
    driven.clock.jump(STORE_COOLDOWN_SECONDS)
    driven.transform(messages)
    assert len(store.load("default")) == 1
