"""`session.pin(message)`: kept for good, whatever becomes of the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compaction_hooks import PinMissing
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore, RecordStore, SQLiteStore
from tests.conversations import Chat, Controller, Scripted, assistant, controller, talk, user
from tests.stores.later import LaterStore

RULE = user("Never touch the public API.")


def conversation() -> list[Chat]:
    return [*talk(3), RULE, assistant("Understood."), *talk(6, first=3)]


def process(store: RecordStore | None = None, **more: Any) -> Controller:
    """A controller as each start of the program makes it."""
    return controller(200_000, summarizer=Scripted("- facts"), store=store, **more)


def view_of(hooks: Controller, messages: list[Chat]) -> list[Chat]:
    return [*hooks.session("thread").compact_sync(messages, keep_recent_tokens=300).messages]


def test_a_pin_survives_a_restart(tmp_path: Path) -> None:
    before = process(SQLiteStore(tmp_path / "records.db")).session("thread")
    before.transform_context_sync(conversation())
    before.pin(before.transform_context_sync(conversation())[6])
    assert RULE in view_of(process(SQLiteStore(tmp_path / "records.db")), conversation())


def test_a_pin_survives_close() -> None:
    hooks = process(MemoryStore())
    hooks.session("thread").pin(RULE)
    hooks.close("thread")
    assert RULE in view_of(hooks, conversation())


async def test_a_pin_set_within_an_event_loop_is_in_the_store_before_the_next_call() -> None:
    store = MemoryStore()
    process(store).session("thread").pin(RULE)
    assert RULE in view_of(process(store), conversation())


def test_a_pin_survives_an_undo_and_a_restart() -> None:
    store = MemoryStore()
    hooks = process(store)
    hooks.session("thread").pin(RULE)
    view_of(hooks, conversation())
    hooks.session("thread").undo()
    assert RULE in view_of(process(store), conversation())


def test_a_pin_goes_along_with_exported_records() -> None:
    here, there = process().session("thread"), process()
    here.pin(RULE)
    assert there.session("thread").import_records(here.export_records()) == 1
    assert there.session("thread").import_records(here.export_records()) == 0
    assert RULE in view_of(there, conversation())


def test_of_two_equal_messages_the_pinned_one_is_kept_after_a_restart() -> None:
    store = MemoryStore()
    messages = [RULE, *talk(3), dict(RULE), assistant("Understood."), *talk(6, first=3)]
    session = process(store).session("thread")
    session.transform_context_sync(messages)
    session.pin(messages[7])
    view = view_of(process(store), messages)
    assert [message is messages[7] for message in view if message == RULE] == [True]


def test_a_pin_set_twice_is_stored_once() -> None:
    store = MemoryStore()
    for _ in range(2):
        session = process(store).session("thread")
        session.pin(RULE)
        session.pin(RULE)
    assert len(store.load("thread")) == 1


def test_a_message_may_be_pinned_before_it_is_said() -> None:
    """An event says that the next list has it not; it is kept all the same, once it is there."""
    events: list[CompactionEvent] = []
    hooks = process(events=events)
    session = hooks.session("thread")
    session.pin(RULE)
    session.transform_context_sync(talk(3))
    session.transform_context_sync(talk(3))
    assert events == [PinMissing(session_id="thread", count=1)]
    assert RULE in view_of(hooks, conversation())


def test_a_pin_of_a_message_that_the_next_list_has_is_silent() -> None:
    events: list[CompactionEvent] = []
    session = process(events=events).session("thread")
    session.pin(RULE)
    session.transform_context_sync(conversation())
    assert events == []


def test_what_was_done_by_hand_survives_a_thousand_other_conversations() -> None:
    hooks = process()
    hooks.session("thread").pin(RULE)
    hooks.session("compacted").compact_sync(conversation(), keep_recent_tokens=300)
    hooks.session("undone").compact_sync(conversation(), keep_recent_tokens=300)
    records = hooks.session("undone").export_records()
    hooks.session("undone").undo()
    hooks.session("forgotten").pin(RULE)
    for number in range(1_001):
        hooks.session(f"other {number}")
    hooks.forget_sync("forgotten")
    assert RULE in view_of(hooks, conversation())
    assert len(hooks.session("compacted").transform_context_sync(conversation())) < len(conversation())
    assert hooks.session("undone").import_records(records) == 0
    assert hooks.session("forgotten").export_records() == []


async def test_a_pin_that_an_async_store_was_not_told_yet_survives_other_conversations() -> None:
    """Within its event loop it is told with the next call; until then the pin is in memory."""

    store = LaterStore()
    hooks = process(store)
    hooks.session("thread").pin(RULE)
    for number in range(1_001):
        hooks.session(f"other {number}")
    await hooks.session("thread").load()
    assert len(await store.load("thread")) == 1


def test_a_stored_pin_has_every_field_that_version_0_1_0_demands_of_a_record() -> None:
    """It reads the pin as a record that is true of no list, takes the pin over, and reports nothing."""
    store = MemoryStore()
    process(store).session("thread").pin(RULE)
    [stored] = map(json.loads, store.load("thread"))
    texts = ("id", "summary", "rendered", "covered_digest", "last_compacted_at")
    numbers = ("version", "prompt_version", "compacted_message_count", "covered_runs", "seen_runs", "compaction_count")
    assert {type(stored[name]) for name in texts} == {str}
    assert {type(stored[name]) for name in numbers} == {int}
    assert (stored["version"], stored["reason"], stored["covered_digest"]) == (1, "manual", "")
    assert [(pin["run"], pin["is_users"]) for pin in stored["pins"]] == [(-1, True)]
