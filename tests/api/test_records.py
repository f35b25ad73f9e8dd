"""What a session remembers: `load()` from the store in a new process; `record`, `records`, `keep`, `unmerged` for adapters."""

import pytest

from compaction_hooks import CallOptions, CompactionSettings
from compaction_hooks.errors import RecordError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from tests.conversations import Controller, Scripted, assistant, controller, prose, system, talk, texts, user

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


RULE = user("Never touch the public API.")


def test_the_record_is_the_active_one() -> None:
    session = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    assert session.record is None
    made = session.compact_sync(MESSAGES, keep_recent_tokens=300).record
    assert session.record == made
    session.transform_context_sync(MESSAGES[:2])
    assert session.record is None
    session.transform_context_sync(MESSAGES)
    session.undo()
    assert session.record is None


def test_the_records_are_those_of_every_branch_with_the_notes() -> None:
    session = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    session.compact_sync(MESSAGES, keep_recent_tokens=300)
    session.compact_sync([user("Another branch"), *talk(20, first=40)], keep_recent_tokens=300)
    session.pin(RULE)
    assert [record.to_dict() for record in session.records] == session.export_records()
    assert sorted(record.is_note for record in session.records) == [False, False, True]


def test_a_kept_message_stays_in_the_view_without_a_record_of_its_own() -> None:
    messages = [*talk(3), RULE, assistant("Understood."), *talk(6, first=3)]
    session = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    session.keep(RULE)
    assert session.records == []
    assert RULE in session.compact_sync(messages, keep_recent_tokens=300).messages


def test_a_merged_view_is_stored_unmerged() -> None:
    settings = CompactionSettings(merge_user_messages=True)
    session = controller(100_000, summarizer=Scripted("- kept"), settings=settings).session("thread")
    session.compact_sync(MESSAGES, keep_recent_tokens=300)
    view = session.transform_context_sync(MESSAGES)
    stored = session.unmerged(view)
    assert len(stored) == len(view) + 1
    assert "- kept" in texts(stored)
    assert session.unmerged(MESSAGES) is MESSAGES
    assert session.transform_context_sync([*stored, assistant("Go on.")])[: len(view)] == view
