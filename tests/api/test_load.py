"""`await session.load()`, `session.load_sync()`: the stored records, in a process that has not seen the conversation yet."""

import pytest

from compaction_hooks import CallOptions
from compaction_hooks.errors import RecordError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from tests.conversations import Controller, Scripted, controller, prose, system, talk, texts

MESSAGES = [system(), *talk(20)]


def process(store: MemoryStore | None, events: list[CompactionEvent] | None = None) -> Controller:
    return controller(100_000, summarizer=Scripted("- kept"), store=store, events=events)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    process(made).session("thread").compact_sync(MESSAGES, keep_recent_tokens=300)
    return made


async def test_a_new_process_knows_the_stored_records_once_they_are_loaded(store: MemoryStore) -> None:
    session = process(store).session("thread")
    assert not session.state().is_loaded
    await session.load()
    assert session.state().is_loaded
    assert session.state().compaction_count == 1
    assert [record.summary for record in session.history()] == ["- kept"]


@pytest.mark.parametrize("is_stored_result", [False, True])
def test_the_size_of_a_list_that_is_loaded_is_known_before_the_first_call(
    store: MemoryStore, is_stored_result: bool
) -> None:
    first = process(store).session("thread").transform_context_sync(MESSAGES)
    messages, options = first if is_stored_result else MESSAGES, CallOptions(context_window=50_000, system=prose(500))
    session = controller(store=store).session("thread")
    session.load_sync()
    assert session.state().context_tokens is None
    session.load_sync(messages, **options)
    loaded = session.state()
    assert loaded.context_tokens
    assert loaded.context_tokens < 2_000
    assert session.transform_context_sync(messages, **options) == first
    assert session.state() == loaded


def test_records_go_from_a_store_to_another_program(store: MemoryStore) -> None:
    here, there = process(store).session("thread"), process(None).session("thread")
    here.load_sync()
    there.import_records(here.export_records())
    assert "- kept" in texts(there.transform_context_sync(MESSAGES))


def test_an_export_before_the_store_was_read_is_refused(store: MemoryStore) -> None:
    session = process(store).session("thread")
    with pytest.raises(RecordError, match=r"session\.load\(\)"):
        session.export_records()
    session.transform_context_sync(MESSAGES)
    assert session.export_records()


def test_a_session_without_a_store_has_nothing_to_load() -> None:
    session = process(None).session("thread")
    session.load_sync()
    assert session.state().is_loaded
    assert session.export_records() == []


def test_an_undo_in_a_new_process_holds(store: MemoryStore) -> None:
    session = process(store).session("thread")
    session.load_sync()
    undone = session.undo()
    assert undone is not None
    assert undone.summary == "- kept"
    assert process(store).session("thread").transform_context_sync(MESSAGES) is MESSAGES
