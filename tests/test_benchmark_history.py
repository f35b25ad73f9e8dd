"""The generated history of the benchmarks."""

from tests.benchmarks.counting import broken_pairs
from tests.benchmarks.history import call_points, grow

MESSAGES = 600


def test_a_seed_makes_one_history_and_a_longer_one_begins_with_it() -> None:
    assert grow(MESSAGES)[:100] == grow(100)
    assert grow(100, seed=1) != grow(100)


def test_calls_and_results_belong_together_at_every_call() -> None:
    history = grow(MESSAGES)
    assert not any(broken_pairs(history[:point]) for point in call_points(history))
