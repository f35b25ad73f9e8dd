"""`trigger_tokens` and `trigger_ratio` of one call, in place of the settings."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings
from tests.conversations import prose


@pytest.mark.parametrize(
    ("options", "trigger"),
    [
        ({}, 30_000),
        ({"trigger_tokens": 6_000}, 6_000),
        ({"trigger_ratio": 0.2}, 20_000),
        ({"trigger_ratio": 0.2, "trigger_tokens": 6_000}, 6_000),
        ({"trigger_ratio": 0.5}, 50_000),
        ({"trigger_tokens": None, "trigger_ratio": None}, 30_000),
    ],
)
def test_a_call_may_be_compacted_earlier_or_later_than_the_settings_say(options: Any, trigger: int) -> None:
    controller = CompactionController(context_window=100_000, settings=CompactionSettings(trigger_tokens=30_000))
    messages: list[Any] = [{"role": "user", "content": prose(120)} for _ in range(8)]
    controller.transform_context_sync(messages, **options)
    assert controller.state().trigger_tokens == trigger


def test_the_next_call_goes_by_the_settings_again() -> None:
    controller = CompactionController(context_window=100_000)
    messages: list[Any] = [{"role": role, "content": prose(120)} for _ in range(30) for role in ("user", "assistant")]
    assert controller.transform_context_sync(messages) is messages
    assert len(controller.transform_context_sync(messages, trigger_tokens=4_000)) < len(messages)
    controller.undo()
    assert controller.transform_context_sync(messages) is messages
