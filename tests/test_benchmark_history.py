"""The benchmarks' input: the generated history, and the floor of the comparison."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.benchmarks.counting import broken_pairs
from tests.benchmarks.floor import Floor
from tests.benchmarks.history import Chat, call_points, grow

MESSAGES = 600
WINDOW = 100_000


def test_a_seed_makes_one_history_and_a_longer_one_begins_with_it() -> None:
    assert grow(MESSAGES)[:100] == grow(100)
    assert grow(100, seed=1) != grow(100)


def test_calls_and_results_belong_together_at_every_call() -> None:
    history = grow(MESSAGES)
    assert not any(broken_pairs(history[:point]) for point in call_points(history))


def test_the_model_is_called_before_each_of_its_messages() -> None:
    history = grow(MESSAGES)
    assert [history[point]["role"] for point in call_points(history)] == ["assistant"] * len(call_points(history))
    assert all(low < high for low, high in pairwise(call_points(history)))
    assert 0.40 <= len(call_points(history)) / len(history) <= 0.48


@pytest.mark.parametrize("reported", [None, 1], ids=["without usage", "with usage"])
async def test_the_floor_compacts_and_sends_valid_requests(reported: int | None) -> None:
    floor = Floor(window=WINDOW, summarize=lambda _: "What happened.")
    history = grow(MESSAGES)
    messages: list[Chat] = []
    views: list[list[Chat]] = []
    for message in history:
        if message["role"] == "assistant":
            views.append(list(await floor.transform_context(messages)))
            if reported:
                floor.report_usage(_tokens(views[-1]))
        messages.append(message)
    assert sum(len(low) > len(high) for low, high in pairwise(views)) >= 2
    assert all(view[0] is history[0] and not broken_pairs(view) and _tokens(view) <= WINDOW for view in views)


async def test_the_floor_starts_over_when_the_history_has_changed() -> None:
    floor = Floor(window=WINDOW, summarize=lambda _: "What happened.")
    history = grow(20)
    await floor.transform_context(history[:15])
    assert await floor.transform_context(history[5:]) == history[5:]


def _tokens(view: list[Chat]) -> int:
    return sum(len(str(message)) for message in view) // 4
