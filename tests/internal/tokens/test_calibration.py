from __future__ import annotations

import json

import pytest

from compaction_hooks.tokens.calibration import (
    FALL_RATE,
    MAXIMUM_RATIO,
    MEMORY_TOKENS,
    MINIMUM_GROWTH_TOKENS,
    MINIMUM_RATIO,
    PRIOR_TOKENS,
    Calibration,
)
from tests.cases import folded


def reports(law: tuple[float, int], sizes: list[int], calibration: Calibration | None = None) -> Calibration:
    """What is learned from a view that grows through these estimated sizes, counted as `ratio * size + hidden`."""
    ratio, hidden = law
    calibration = calibration or Calibration()
    previous: int | None = None
    for size in sizes:
        if previous is not None:
            growth = size - previous
            calibration = calibration.observe_growth(estimated=growth, counted=round(ratio * growth))
        calibration = calibration.observe(estimated=size, counted=hidden + round(ratio * size))
        previous = size
    return calibration


def test_nothing_known_means_the_estimate_itself() -> None:
    assert Calibration().predict(5_000) == 5_000
    assert Calibration().predict_growth(5_000) == 5_000


def test_the_ratio_is_learned_from_growth_with_any_hidden_prefix() -> None:
    without, with_prefix = (reports((1.3, hidden), [1_000, 9_000, 20_000, 40_000]) for hidden in (0, 35_000))
    assert without.ratio == with_prefix.ratio
    assert without.ratio == pytest.approx(1.3, abs=0.03)


def test_growth_of_less_than_a_thousand_waits_until_it_adds_up() -> None:
    learned = Calibration()
    for _ in range(3):
        learned = learned.observe_growth(estimated=300, counted=450)
        assert learned.ratio == 1.0
    learned = learned.observe_growth(estimated=300, counted=450)
    assert learned.ratio == pytest.approx((PRIOR_TOKENS + 1_800) / (PRIOR_TOKENS + 1_200))


def test_a_rise_is_taken_up_at_once_and_a_fall_slowly() -> None:
    risen = Calibration().observe_growth(estimated=20_000, counted=28_000)
    assert risen.ratio == pytest.approx((PRIOR_TOKENS + 28_000) / (PRIOR_TOKENS + 20_000))
    lesson = (PRIOR_TOKENS + 15_000) / (PRIOR_TOKENS + 20_000)
    fallen = Calibration().observe_growth(estimated=20_000, counted=15_000)
    assert fallen.ratio == pytest.approx(1.0 + FALL_RATE * (lesson - 1.0))


def test_one_hidden_reminder_does_not_triple_the_ratio() -> None:
    learned = Calibration().observe_growth(estimated=MINIMUM_GROWTH_TOKENS, counted=MINIMUM_GROWTH_TOKENS + 2_000)
    assert learned.ratio < 1.7


@folded("counted, bound", {"absurdly much": (10**9, MAXIMUM_RATIO), "nothing": (0, MINIMUM_RATIO)})
def test_the_ratio_keeps_its_bounds(counted: int, bound: float) -> None:
    learned = Calibration()
    for _ in range(40):
        learned = learned.observe_growth(estimated=50_000, counted=counted)
    assert learned.ratio == pytest.approx(bound, abs=0.01)


@folded("estimated, counted", {"by count": (2_000, -500), "by estimate": (-2_000, 500)})
def test_a_view_that_shrank_teaches_nothing(estimated: int, counted: int) -> None:
    """Claude drops thinking of earlier turns by itself; a rewind makes another view."""
    waiting = Calibration().observe_growth(estimated=900, counted=900)
    learned = waiting.observe_growth(estimated=estimated, counted=counted)
    assert learned == Calibration()


def test_a_smaller_view_corrects_the_overhead() -> None:
    """A session resumed large: its ratio was put into the overhead, which the small view after a compaction shows."""
    resumed = Calibration().observe(estimated=100_000, counted=145_000)
    assert resumed.overhead_tokens == 45_000
    assert resumed.observe(estimated=8_000, counted=30_400).overhead_tokens == 22_400


def test_a_larger_view_never_lowers_the_overhead() -> None:
    """On a large view a small error of the ratio outweighs the whole prefix."""
    learned = Calibration().observe(estimated=1_000, counted=21_000)
    assert learned.observe(estimated=100_000, counted=105_000) == learned


def test_a_prefix_that_grew_raises_the_overhead() -> None:
    learned = Calibration().observe(estimated=1_000, counted=21_000).observe(estimated=2_000, counted=30_000)
    assert learned.overhead_tokens == 28_000


def test_a_higher_ratio_lowers_the_overhead() -> None:
    learned = Calibration().observe(estimated=50_000, counted=75_000)
    learned = learned.observe_growth(estimated=20_000, counted=26_000)
    assert learned.predict(50_000) == pytest.approx(75_000, abs=1)


def test_another_conversation_inherits_the_ratio_only() -> None:
    learned = reports((1.3, 30_000), [1_000, 20_000, 20_500]).for_another_conversation()
    assert learned.ratio > 1.2
    assert learned.predict(0) == 0
    assert learned.observe(estimated=500, counted=650).overhead_tokens < 50


# -- saved beside a conversation


def test_a_calibration_survives_as_plain_json() -> None:
    learned = reports((1.3, 30_000), [1_000, 20_000, 45_000])
    restored = Calibration.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert restored == learned
    assert restored.predict(12_000) == learned.predict(12_000)


@folded(
    "saved",
    {
        "text": {"ratio": "1.2"},
        "no numbers": {"ratio": True, "overhead_tokens": None},
        "not finite": {"ratio": float("nan"), "overhead_counted": float("inf")},
        "negative": {"ratio": -1.0, "overhead_seen_at": -5},
        "an overhead of no view": {"overhead_tokens": 40_000},
        "an unknown field": {"another": 2.0},
    },
)
def test_saved_nonsense_is_as_if_nothing_was_learned(saved: dict[str, object]) -> None:
    assert Calibration.from_dict(saved) == Calibration()


def test_an_overhead_of_which_only_the_view_was_saved_is_unlearned() -> None:
    assert Calibration.from_dict({"overhead_seen_at": 9}) == Calibration(overhead_seen_at=9)


def test_a_saved_ratio_keeps_its_bounds() -> None:
    """Somebody edited it, or a later version knows other bounds."""
    restored = Calibration.from_dict({"ratio": 50.0, "grown_estimated": 10**8, "grown_counted": 1.0})
    assert restored.ratio == MAXIMUM_RATIO
    assert restored.grown_estimated == MEMORY_TOKENS
    assert restored.grown_counted == MINIMUM_RATIO * MEMORY_TOKENS
