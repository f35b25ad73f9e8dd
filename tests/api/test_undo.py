"""`session.undo()`: an undone compaction stays undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from compaction_hooks import CompactionSettings, StoreFailed, SummaryRequest
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.stores import MemoryStore, RecordStore
from tests.conversations import (
    Chat,
    Clock,
    Controller,
    Scripted,
    above_threshold,
    controller,
    steps,
    system,
    talk,
    texts,
    user,
)

MESSAGES = [system(), *talk(20)]


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


class OfOneLoop(MemoryStore):
    """An async store whose connection belongs to the loop it was made in, as that of most async clients does."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    def _check(self) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("attached to a different loop")

    async def load(self, session_id: str) -> Sequence[str]:  # type: ignore[override]
        self._check()
        return super().load(session_id)

    async def append(self, session_id: str, record_id: str, record: str) -> None:  # type: ignore[override]
        self._check()
        super().append(session_id, record_id, record)

    async def remove(self, session_id: str, record_id: str) -> None:  # type: ignore[override]
        self._check()
        super().remove(session_id, record_id)


def worker(
    store: RecordStore,
    summarizer: Callable[[SummaryRequest], str] | Scripted | None = None,
    events: list[CompactionEvent] | None = None,
    clock: Clock | None = None,
) -> Controller:
    settings = CompactionSettings(clear_tool_results=False)
    return controller(8_192, summarizer=summarizer, store=store, settings=settings, events=events, clock=clock)


def long(count: int = 22) -> list[Chat]:
    return [system(), user("Port the parser."), *steps(count, 300)]


def failures(events: list[CompactionEvent]) -> list[tuple[str, str]]:
    return [(event.action, event.error) for event in events if isinstance(event, StoreFailed)]


def test_an_undo_goes_along_with_exported_records() -> None:
    here = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    there = controller(100_000).session("thread")
    here.compact_sync(MESSAGES, keep_recent_tokens=300)
    there.import_records(here.export_records())
    assert "- kept" in texts(there.transform_context_sync(MESSAGES))
    here.undo()
    assert there.import_records(here.export_records()) == 1
    assert there.import_records(here.export_records()) == 0
    assert there.transform_context_sync(MESSAGES) is MESSAGES


def test_an_imported_undo_reaches_the_store() -> None:
    store = MemoryStore()
    here = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    there = controller(100_000, store=store).session("thread")
    here.compact_sync(MESSAGES, keep_recent_tokens=300)
    there.import_records(here.export_records())
    there.load_sync()
    assert len(store.load("thread")) == 1
    here.undo()
    there.import_records(here.export_records())
    there.load_sync()
    assert store.load("thread") == []


def test_what_was_undone_before_the_first_call_is_not_made_again_by_it() -> None:
    """The list is above the threshold all the same, as it was when it was compacted."""
    store, settings = MemoryStore(), CompactionSettings(trigger_tokens=3_000)
    controller(100_000, summarizer=Scripted("- kept"), store=store, settings=settings).transform_context_sync(MESSAGES)
    hooks = controller(100_000, summarizer=Scripted("- again"), store=store, settings=settings)
    hooks.load_sync()
    assert hooks.undo() is not None
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES


def test_exported_records_carry_the_rest_after_an_undo() -> None:
    settings = CompactionSettings(trigger_tokens=3_000, keep_recent_tokens=300)
    here = controller(100_000, summarizer=Scripted("- kept"), settings=settings).session("thread")
    assert here.transform_context_sync(MESSAGES) is not MESSAGES
    here.undo()
    hooks = controller(100_000, summarizer=Scripted("- again"), settings=settings)
    there = hooks.session("thread")
    there.import_records(here.export_records())
    assert there.transform_context_sync(MESSAGES) is MESSAGES
    assert "- again" in texts(there.transform_context_sync([*MESSAGES, *talk(10)]))


def test_undo_gives_back_the_view_of_before_and_rests() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages = above_threshold()
    assert hooks.transform_context_sync(messages) is not messages
    undone = hooks.undo()
    assert undone is not None
    assert undone.compaction_count == 1
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.undo() is None


def test_undo_of_a_stored_list_keeps_its_summary() -> None:
    """The summary at the head has no record then: it is updated, not lost."""
    asked = Scripted("- ALPHA", "- both")
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    stored = hooks.compact_sync([system(), user("start"), *steps(16, 350)]).messages
    hooks.transform_context_sync(stored)
    hooks.undo()
    hooks.transform_context_sync([*stored, *steps(24, 350, first=40)])
    assert "- ALPHA" in str(asked.requests[-1].previous_summary)


def test_undo_takes_what_another_worker_made_of_the_same_messages_with_it() -> None:
    """Else the view would not change: the other summary would come into force."""
    messages = [system(), *talk(12)]
    one, other = (summarising(Scripted(f"- by worker {name}")) for name in "ab")
    one.compact_sync(messages)
    other.compact_sync(messages)
    one.session("default").import_records(other.session("default").export_records())
    assert "by worker" in texts(one.transform_context_sync(messages))
    one.undo()
    assert one.transform_context_sync(messages) is messages


def test_a_redo_after_an_undo_is_a_compaction_like_any_other() -> None:
    hooks = summarising(Scripted("- the same each time"))
    messages = [system(), *talk(12)]
    first = hooks.compact_sync(messages).record
    hooks.undo()
    hooks.transform_context_sync(messages)
    second = hooks.compact_sync(messages).record
    assert first is not None
    assert second is not None
    assert first.id == second.id
    assert [record.id for record in hooks.history()] == [first.id]


def test_an_undo_holds_in_the_other_formats_of_the_conversation() -> None:
    """A conversation may be written in several formats; a record undone in one is not active in another."""
    hooks = summarising(Scripted("- taken back"))
    messages = [system(), *talk(12)]
    chat, other = hooks.session("a"), AnthropicFormat()
    chat.compact_sync(messages)
    turns: list[Chat] = [dict(message) for message in messages[1:]]
    assert "- taken back" in str(hooks.session("a", other).transform_context_sync(turns))
    hooks.session("a", OpenAIChatFormat()).undo()
    assert hooks.session("a", other).transform_context_sync(turns) is turns


def test_an_undo_while_the_next_compaction_runs_holds() -> None:
    """A summary that continues the undone one does not become active."""
    undone: list[object] = []

    def summarize(request: SummaryRequest) -> str:
        if request.previous_summary:
            undone.append(hooks.undo())
        return "## Goal\n- the undone one"

    hooks = controller(100_000, summarizer=summarize)
    messages = [system(), *talk(20)]
    hooks.compact_sync(messages)
    messages = [*messages, *talk(20, first=20)]
    hooks.compact_sync(messages)
    assert undone
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.history() == []


async def test_an_undo_reaches_an_async_store_from_within_its_own_loop() -> None:
    """`undo` is no coroutine: it leaves the removal to the next call."""
    store, events = OfOneLoop(), list[CompactionEvent]()
    hooks = worker(store, Scripted(), events)
    await hooks.compact(long(10))
    assert len(await store.load("default")) == 1
    hooks.undo()
    await hooks.transform_context(long(10))
    assert await store.load("default") == []
    assert failures(events) == []
