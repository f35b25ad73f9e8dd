"""`CompactionSettings.trigger_ratio` and `trigger_tokens`: the threshold as a part of the window, or in tokens."""

from __future__ import annotations

import pytest

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user

MESSAGES = [user("go"), *steps(30, 300)]


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
    assert settings.budget(100_000).trigger == trigger


def test_a_low_trigger_in_a_large_window_leaves_room_next_to_the_summary() -> None:
    """At most 60 % of the trigger after a compaction, whatever the window would allow a summary."""
    hooks = controller(100_000, settings=CompactionSettings(trigger_tokens=3_000))
    hooks.transform_context_sync(MESSAGES)
    assert (hooks.state().context_tokens or 0) <= 1_800
