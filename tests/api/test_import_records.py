"""`session.export_records()` and `session.import_records()`: records that a host keeps itself.

`session.load()`: the stored ones, in a new process. For adapters, and for such hosts: `record`, `records`, `to_store`,
`pin(store=False)`.
"""

import json
from dataclasses import replace

import pytest

from compaction_hooks import CallOptions, CompactionSettings
from compaction_hooks.errors import RecordError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from tests.conversations import (
    UNFILLED,
    Controller,
    Scripted,
    above_threshold,
    assistant,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    user,
)


def test_a_record_that_arrives_late_is_found_in_a_list_that_was_read_already() -> None:
    stored = controller(8_192, summarizer=Scripted()).session("a")
    result = stored.compact_sync(above_threshold())
    other = controller(8_192)
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 0
    other.session("default").import_records(stored.export_records())
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 1


def test_exported_records_are_plain_json() -> None:
    """Stores and checkpointers may keep them as they are: lists, no tuples."""
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync([user("go"), *steps(40, 300)])
    (record,) = session.export_records()
    assert record["digest"]
    assert json.loads(json.dumps(record)) == record


def test_imported_records_are_in_the_store_at_once() -> None:
    made = controller(8_192, summarizer=Scripted()).session("a")
    result = made.compact_sync(above_threshold())
    store = MemoryStore()
    controller(8_192, store=store).session("b").import_records(made.export_records())
    later = controller(8_192, store=store).session("b")
    later.transform_context_sync(result.messages)
    assert later.state().compaction_count == 1


MESSAGES = [system(), *talk(20)]


def process(store: MemoryStore | None, events: list[CompactionEvent] | None = None) -> Controller:
    return controller(100_000, summarizer=Scripted("- kept"), store=store, events=events, settings=UNFILLED)


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
    assert replace(session.state(), totals=loaded.totals) == loaded


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


def test_a_pin_that_is_not_stored_stays_in_the_view_without_a_record_of_its_own() -> None:
    messages = [*talk(3), RULE, assistant("Understood."), *talk(6, first=3)]
    session = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    session.pin(RULE, store=False)
    assert session.records == []
    assert RULE in session.compact_sync(messages, keep_recent_tokens=300).messages


def test_a_merged_view_is_stored_with_its_summary_in_a_message_of_its_own() -> None:
    settings = CompactionSettings(merge_user_messages=True)
    session = controller(100_000, summarizer=Scripted("- kept"), settings=settings).session("thread")
    session.compact_sync(MESSAGES, keep_recent_tokens=300)
    view = session.transform_context_sync(MESSAGES)
    stored = session.to_store(view)
    assert len(stored) > len(view)
    assert "- kept" in texts(stored)
    assert session.to_store(MESSAGES) is MESSAGES
    assert session.transform_context_sync([*stored, assistant("Go on.")])[: len(view)] == view
