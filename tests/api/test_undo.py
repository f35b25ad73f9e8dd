"""`session.undo()`: an undone compaction stays undone."""

from __future__ import annotations

from compaction_hooks import CompactionSettings
from compaction_hooks.stores import MemoryStore
from tests.conversations import Scripted, above_threshold, controller, steps, system, talk, texts, user

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


def test_undo_gives_back_the_view_of_before_and_rests() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages = above_threshold()
    assert hooks.transform_context_sync(messages) is not messages
    undone = hooks.undo()
    assert undone is not None
    assert undone.compaction_count == 1
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.undo() is None


def test_after_an_undo_it_compacts_again_once_the_context_has_grown() -> None:
    hooks = controller(16_384, summarizer=Scripted())
    messages = [system(), *talk(30)]
    hooks.transform_context_sync(messages)
    hooks.undo()
    views = []
    for n in range(30, 40):
        messages = [*messages, *talk(1, first=n)]
        views.append(hooks.transform_context_sync(messages) is messages)
    assert views[0] is True
    assert views[-1] is False


def test_undo_goes_back_one_record() -> None:
    """Records form a chain."""
    hooks = controller(8_192, summarizer=Scripted("- one", "- two"))
    messages = talk(15)
    hooks.compact_sync(messages, keep_recent_tokens=500)
    messages = [*messages, *talk(15, first=15)]
    hooks.compact_sync(messages, keep_recent_tokens=500)
    hooks.undo()
    assert [record.summary for record in hooks.history()] == ["- one"]


def test_undo_of_a_stored_list_keeps_its_summary() -> None:
    """The summary at the head has no record then: it is updated, not lost."""
    asked = Scripted("- ALPHA", "- both")
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    stored = hooks.compact_sync([system(), user("start"), *steps(16, 350)]).messages
    hooks.transform_context_sync(stored)
    hooks.undo()
    hooks.transform_context_sync([*stored, *steps(24, 350, first=40)])
    assert "- ALPHA" in str(asked.requests[-1].previous_summary)
