"""`CompactionController(store=...)`: records that survive the process."""

import asyncio
from collections.abc import Sequence

from compaction_hooks.stores import MemoryStore
from tests.conversations import Scripted, above_threshold, controller, one_task, summarizing, texts
from tests.stores.opened import LaterStore


class Slow(LaterStore):
    """An async store that writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def append(self, session_id: str, record_id: str, record: str) -> None:
        self.writes.append(record_id)
        self.begun.set()
        await self.release.wait()
        await super().append(session_id, record_id, record)


class Listed(MemoryStore):
    """A store that lists its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def load(self, session_id: str) -> Sequence[str]:
        self.asked.append("load")
        return super().load(session_id)

    def append(self, session_id: str, record_id: str, record: str) -> None:
        self.asked.append("append")
        super().append(session_id, record_id, record)


async def test_an_async_store_serves_async_and_sync_callers() -> None:
    store = LaterStore()
    messages = above_threshold()
    await controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context(messages)
    assert "- kept" in texts(await controller(8_192, store=store).transform_context(messages))
    assert len(await store.load("default")) == 1


def test_a_second_worker_uses_the_first_ones_summary_instead_of_paying_for_another() -> None:
    store, asked = MemoryStore(), Scripted("- made once")
    one, other = summarizing(asked, store=store), summarizing(asked, store=store)
    short, messages = one_task(4), one_task()
    one.transform_context_sync(short)
    other.transform_context_sync(short)
    assert "- made once" in texts(one.transform_context_sync(messages))
    assert texts(other.transform_context_sync(messages)) == texts(one.transform_context_sync(messages))
    assert len(asked.requests) == 1


async def test_a_record_that_is_being_written_is_not_written_by_another_caller_too() -> None:
    store = Slow()
    hooks = summarizing(Scripted("- made once"), store=store)
    messages = one_task()
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
    hooks = summarizing(asked, store=store)
    messages = one_task()
    record = hooks.compact_sync(messages).record
    assert record is not None
    store.remove("default", record.id)
    assert "- remembered" in texts(hooks.transform_context_sync(messages))
    assert len(asked.requests) == 1


def test_records_that_are_imported_later_reach_the_store_too() -> None:
    """They are written with the next call, though the store was read already and need not be read again."""
    origin = summarizing(Scripted("- from elsewhere"))
    messages = one_task()
    origin.transform_context_sync(messages)
    store = Listed()
    hooks = summarizing(store=store)
    hooks.transform_context_sync(one_task(4))
    assert hooks.session("default").import_records(origin.session("default").export_records()) == 1
    assert "- from elsewhere" in texts(hooks.transform_context_sync(messages))
    assert store.asked == ["load", "append"]
    assert "- from elsewhere" in store.load("default")[0]
