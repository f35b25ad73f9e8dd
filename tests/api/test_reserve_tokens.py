"""`CompactionSettings.reserve_tokens`, `max_output_tokens`: the room that stays free, and the numbers that follow from it."""

import pytest

from compaction_hooks import CompactionSettings


@pytest.mark.parametrize(
    ("window", "trigger"),
    [
        pytest.param(8_192, 6_144, id="a quarter of a small window"),
        pytest.param(65_536, 49_152, id="where both rules meet"),
        pytest.param(1_000_000, 983_616, id="the fixed reserve of a large one"),
    ],
)
def test_reserve_is_at_most_a_quarter_of_the_window(window: int, trigger: int) -> None:
    assert CompactionSettings().budget(window).trigger == trigger


def test_kept_tail_is_at_most_a_third_of_the_window_and_a_fifth_after_an_overflow() -> None:
    small, large = CompactionSettings().budget(16_384), CompactionSettings().budget(200_000)
    assert (small.keep, small.emergency_keep) == (5_734, 3_276)
    assert (large.keep, large.emergency_keep) == (20_000, 20_000)


def test_summary_and_clearing_scale_with_the_window() -> None:
    small, large = CompactionSettings().budget(16_384), CompactionSettings().budget(1_000_000)
    assert (small.summary, small.protect_results, small.minimum_clear) == (1_638, 3_276, 1_638)
    assert (large.summary, large.protect_results, large.minimum_clear) == (4_096, 40_000, 20_000)


def test_output_takes_from_a_window_it_shares_and_not_from_an_input_window() -> None:
    settings = CompactionSettings(max_output_tokens=32_000)
    assert settings.budget(200_000).trigger == 168_000
    assert settings.budget(200_000, is_input_only=True).trigger == 183_616


def test_target_is_six_tenths_of_the_trigger() -> None:
    assert CompactionSettings().budget(200_000).target == int(183_616 * 0.6)
