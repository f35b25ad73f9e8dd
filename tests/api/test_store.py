"""`CompactionController(store=...)`: records that survive the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from compaction_hooks import CompactionSettings, SummaryRequest
from compaction_hooks.events import CompactionEvent
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
    texts,
    user,
)
from tests.stores.later import LaterStore


class Flaky(MemoryStore):
    """A store whose methods fail while they are named, and that counts how often it was asked."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing = set(failing)
        self.asked: list[str] = []

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if name in self.failing:
            raise OSError(f"cannot {name} now")

    def load(self, session_id: str) -> Sequence[str]:
        self._ask("load")
        return super().load(session_id)

    def append(self, session_id: str, record_id: str, record: str) -> None:
        self._ask("append")
        super().append(session_id, record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        self._ask("remove")
        super().remove(session_id, record_id)


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


class Slow(OfOneLoop):
    """An async store that writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def append(self, session_id: str, record_id: str, record: str) -> None:  # type: ignore[override]
        self.writes.append(record_id)
        self.begun.set()
        await self.release.wait()
        await super().append(session_id, record_id, record)


async def test_an_async_store_serves_async_and_sync_callers() -> None:
    store = LaterStore()
    messages = above_threshold()
    await controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context(messages)
    assert "- kept" in texts(await controller(8_192, store=store).transform_context(messages))
    assert len(await store.load("default")) == 1


def test_a_second_worker_uses_the_first_ones_summary_instead_of_paying_for_another() -> None:
    """Both had loaded the records before either compacted."""
    store, asked = MemoryStore(), Scripted("- made once")
    one, other = worker(store, asked), worker(store, asked)
    short, messages = long(4), long()
    one.transform_context_sync(short)
    other.transform_context_sync(short)
    assert "- made once" in texts(one.transform_context_sync(messages))
    assert texts(other.transform_context_sync(messages)) == texts(one.transform_context_sync(messages))
    assert len(asked.requests) == 1


def test_a_worker_that_finds_a_summary_when_its_own_is_made_agrees_at_once() -> None:
    store, messages = MemoryStore(), long()
    first = worker(store, Scripted("- by the first"))

    def ask(_: SummaryRequest) -> str:
        first.transform_context_sync(messages)
        return "- by the second"

    second = worker(store, ask)
    view = texts(second.transform_context_sync(messages))
    assert len(store.load("default")) == 2
    assert [texts(hooks.transform_context_sync(messages)) for hooks in (first, second)] == [view, view]


async def test_a_record_that_is_being_written_is_not_written_by_another_caller_too() -> None:
    store = Slow()
    hooks = worker(store, Scripted("- made once"))
    messages = long()
    leader = asyncio.create_task(hooks.transform_context(messages))
    await store.begun.wait()
    assert "- made once" in texts(await hooks.transform_context(messages))
    assert len(store.writes) == 1
    store.release.set()
    assert "- made once" in texts(await leader)
    assert len(store.writes) == len(await store.load("default")) == 1


def test_a_store_that_forgets_costs_no_summary() -> None:
    """Records that the store lost, or does not show yet, are still in memory."""
    store, asked = MemoryStore(), Scripted("- remembered")
    hooks = worker(store, asked)
    messages = long()
    record = hooks.compact_sync(messages).record
    assert record is not None
    store.remove("default", record.id)
    assert "- remembered" in texts(hooks.transform_context_sync(messages))
    assert len(asked.requests) == 1


def test_records_that_are_imported_later_reach_the_store_too() -> None:
    """They are written with the next call, though the store was read already and need not be read again."""
    origin = worker(MemoryStore(), Scripted("- from elsewhere"))
    messages = long()
    origin.transform_context_sync(messages)
    store = Flaky()
    hooks = worker(store)
    hooks.transform_context_sync(long(4))
    assert hooks.session("default").import_records(origin.session("default").export_records()) == 1
    assert "- from elsewhere" in texts(hooks.transform_context_sync(messages))
    assert store.asked == ["load", "append"]
    assert "- from elsewhere" in store.load("default")[0]
