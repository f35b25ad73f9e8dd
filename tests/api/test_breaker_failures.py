"""`breaker_failures`, `breaker_cooldown_seconds`, `summary_timeout_seconds`: a failing summarizer is not asked for a while.

`tests/faults/test_summarizer_faults.py` opens and closes the breaker, and lets summarizers hang.
"""

import pytest

from compaction_hooks import CompactionFailed, CompactionOutcome
from compaction_hooks.events import CompactionEvent
from tests.conversations import Clock, Scripted, above_threshold, controller


def test_an_open_breaker_does_not_hold_back_a_manual_compaction() -> None:
    asked = Scripted(*[ConnectionError("down")] * 3, "- by hand")
    hooks = controller(8_192, summarizer=asked, clock=Clock())
    for _ in range(4):
        hooks.transform_context_sync(above_threshold())
    assert hooks.compact_sync(above_threshold()).outcome is CompactionOutcome.COMPACTED


def test_the_event_of_a_failure_says_when_the_breaker_opened(caplog: pytest.LogCaptureFixture) -> None:
    events: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted(ConnectionError("down")), events=events, clock=Clock())
    for _ in range(3):
        hooks.transform_context_sync(above_threshold())
    opened = [event.is_breaker_open for event in events if isinstance(event, CompactionFailed)]
    assert opened == [False, False, True]
    assert sum("summarizer failed (ConnectionError" in line for line in caplog.messages) == 3
