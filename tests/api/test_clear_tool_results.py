"""`CompactionSettings.clear_tool_results`: old results are cleared before anything is summarized."""

from __future__ import annotations

from compaction_hooks import CompactionSettings
from tests.conversations import Scripted, controller, steps, texts, user


def test_old_results_are_cleared_first_and_no_summariser_is_asked() -> None:
    """Runs before and independent of a summary."""
    asked = Scripted()
    messages = [user("go"), *steps(24, 500)]
    view = controller(16_384, summarizer=asked).transform_context_sync(messages)
    assert asked.requests == []
    assert "Old tool result cleared" in texts(view)
    assert len(view) == len(messages)


def test_clearing_can_be_switched_off() -> None:
    asked = Scripted()
    settings = CompactionSettings(clear_tool_results=False)
    controller(16_384, summarizer=asked, settings=settings).transform_context_sync([user("go"), *steps(24, 500)])
    assert len(asked.requests) == 1
