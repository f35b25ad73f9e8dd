"""`CompactionSettings.trigger_ratio` and `trigger_tokens`: the threshold as a part of the window, or in tokens."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, ConfigurationError
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


@pytest.mark.parametrize("options", [{}, {"trigger_ratio": 0.5}], ids=["setting", "option of a call"])
def test_a_ratio_needs_the_window_of_the_first_call(options: dict[str, Any]) -> None:
    settings = CompactionSettings() if options else CompactionSettings(trigger_ratio=0.8)
    hooks = CompactionController(settings=settings)
    for model in (None, "an-unknown-model"):
        with pytest.raises(
            ConfigurationError, match=r"trigger_ratio=0\.[58] is a part .* set context_window=\.\.\. \(tokens\)"
        ):
            hooks.transform_context_sync(MESSAGES, model=model, **options)
    view = hooks.transform_context_sync(MESSAGES, context_window=8_000, **options)
    assert len(view) < len(MESSAGES)
    # A model without a window, to which a run falls back, must not end the run.
    assert hooks.transform_context_sync(MESSAGES, model="an-unknown-model", **options)


def test_a_ratio_that_is_not_used_needs_no_window() -> None:
    for settings in (
        CompactionSettings(trigger_ratio=0.8, auto_compact=False),
        CompactionSettings(trigger_ratio=0.8, is_subagent=True),
    ):
        assert CompactionController(settings=settings).transform_context_sync(MESSAGES) is MESSAGES
    hooks, by_server = CompactionController(settings=CompactionSettings(trigger_ratio=0.8)), {"truncation": "auto"}
    assert hooks.transform_context_sync(MESSAGES, request=by_server) is MESSAGES
