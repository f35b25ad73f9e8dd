"""`session.history()`: the records of the compactions that the present list shows, oldest first."""

from __future__ import annotations

from typing import Any

from compaction_hooks import CompactionSettings, SummaryRequest
from compaction_hooks.events import CompactionEvent
from tests.conversations import Chat, Controller, controller, steps, system, user

WINDOW = 8_192


class Numbered:
    """A summarizer whose summaries can be told apart."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, request: SummaryRequest) -> str:
        self.count += 1
        return f"summary number {self.count}"


def summarising(summarizer: Any = None, events: list[CompactionEvent] | None = None) -> Controller:
    """Return a controller that summarizes at once, without clearing tool results first."""
    settings = CompactionSettings(clear_tool_results=False)
    return controller(WINDOW, summarizer=summarizer or Numbered(), events=events, settings=settings)


def long() -> list[Chat]:
    return [system(), user("Port the parser."), *steps(22, 300)]


def test_history_tells_each_compaction_with_its_sizes() -> None:
    hooks = summarising()
    assert hooks.history() == []
    messages = long()
    hooks.transform_context_sync(messages)
    messages = [*messages, *steps(14, 300, first=22)]
    hooks.compact_sync(messages)
    told = hooks.history()
    assert [record.reason for record in told] == ["threshold", "manual"]
    assert [record.compaction_count for record in told] == [1, 2]
    assert all(record.tokens_after < record.tokens_before for record in told)
    assert told[0].id == told[1].parent
    hooks.undo()
    assert [record.id for record in hooks.history()] == [told[0].id]
