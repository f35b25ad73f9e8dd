"""`session.undo()`: what was taken back stays taken back."""

from __future__ import annotations

from compaction_hooks import CompactionSettings
from compaction_hooks.stores import MemoryStore
from tests.conversations import Scripted, controller, system, talk, texts

MESSAGES = [system(), *talk(20)]


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
