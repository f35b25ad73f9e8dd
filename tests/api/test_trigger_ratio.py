"""`CompactionSettings.trigger_ratio` and `trigger_tokens`: the threshold as a part of the window, or in tokens."""

from __future__ import annotations

import pytest

from compaction_hooks import CompactionSettings


@pytest.mark.parametrize(
    ("settings", "trigger"),
    [
        pytest.param(CompactionSettings(trigger_ratio=0.8, trigger_tokens=70_000), 70_000, id="the lower of two"),
        pytest.param(CompactionSettings(trigger_ratio=0.8), 80_000, id="a ratio"),
        pytest.param(CompactionSettings(trigger_tokens=50_000), 50_000, id="an absolute number"),
        pytest.param(CompactionSettings(trigger_tokens=500_000), 83_616, id="never above the reserve"),
    ],
)
def test_threshold_can_be_a_ratio_or_a_number(settings: CompactionSettings, trigger: int) -> None:
    """The options."""
    assert settings.budget(100_000).trigger == trigger
