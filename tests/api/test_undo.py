"""`session.undo()`: an undone compaction stays undone."""

import pytest

from compaction_hooks import CompactionController, CompactionSettings, StoreFailed, SummaryRequest, Usage
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.stores import MemoryStore
from tests.conversations import (
    PLAIN,
    Chat,
    Numbered,
    Scripted,
    above_threshold,
    controller,
    one_task,
    prose,
    steps,
    summarizing,
    system,
    talk,
    texts,
    tokens_of,
    user,
)
from tests.stores.opened import OfOneLoop

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


def test_a_compaction_undone_before_the_first_call_is_not_made_again() -> None:
    """The list is above the threshold all the same, as it was when it was compacted."""
    store, settings = MemoryStore(), CompactionSettings(trigger_tokens=3_000)
    controller(100_000, summarizer=Scripted("- kept"), store=store, settings=settings).transform_context_sync(MESSAGES)
    hooks = controller(100_000, summarizer=Scripted("- again"), store=store, settings=settings)
    hooks.load_sync()
    assert hooks.undo() is not None
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES


def test_exported_records_carry_the_cooldown_after_an_undo() -> None:
    settings = CompactionSettings(trigger_tokens=3_000, keep_recent_tokens=300)
    here = controller(100_000, summarizer=Scripted("- kept"), settings=settings).session("thread")
    assert here.transform_context_sync(MESSAGES) is not MESSAGES
    here.undo()
    hooks = controller(100_000, summarizer=Scripted("- again"), settings=settings)
    there = hooks.session("thread")
    there.import_records(here.export_records())
    assert there.transform_context_sync(MESSAGES) is MESSAGES
    assert "- again" in texts(there.transform_context_sync([*MESSAGES, *talk(10)]))


def test_an_imported_undo_does_not_lengthen_the_cooldown_after_a_compaction_made_here() -> None:
    settings = CompactionSettings(trigger_tokens=3_000, keep_recent_tokens=300)
    here, there = (controller(100_000, summarizer=Numbered(), settings=settings).session("a") for _ in range(2))
    longer = [*MESSAGES, *talk(10, first=20)]
    assert here.transform_context_sync(longer) is not longer
    here.undo()
    there.transform_context_sync(MESSAGES)
    there.import_records(here.export_records())
    assert "summary number 2" in texts(there.transform_context_sync(longer))


def test_undo_gives_back_the_view_of_before_until_the_context_grew_by_a_tenth() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages = above_threshold()
    assert hooks.transform_context_sync(messages) is not messages
    undone = hooks.undo()
    assert undone is not None
    assert undone.compaction_count == 1
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.undo() is None
    enough = int(tokens_of(hooks) * 1.1)
    for counted, waits in ((enough - 1, True), (enough, False)):
        hooks.report_usage(Usage(input_tokens=counted))
        assert (hooks.transform_context_sync(messages) is messages) == waits


def test_an_undo_holds_after_a_call_that_is_left_to_the_server() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages = above_threshold()
    hooks.transform_context_sync(messages)
    assert hooks.undo() is not None
    assert hooks.transform_context_sync(messages, request={"truncation": "auto"}) is messages
    assert hooks.transform_context_sync(messages) is messages


def test_an_undo_holds_after_a_call_of_another_model_that_cannot_fit() -> None:
    hooks: CompactionController[Chat] = CompactionController(summarizer=Scripted())
    messages = [user("Fix the parser."), *steps(16, 300), user(prose(1_500))]
    hooks.transform_context_sync(messages, context_window=8_192)
    assert hooks.undo() is not None
    hooks.transform_context_sync(messages, context_window=1_100)
    assert hooks.transform_context_sync(messages, context_window=8_192) is messages


@pytest.mark.parametrize("program", ["the same", "another with the store", "another without"])
def test_undo_of_a_stored_result_does_nothing_and_says_why(program: str, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    asked = Scripted("- ALPHA", "- both")
    hooks = controller(8_192, summarizer=asked, settings=PLAIN, store=store)
    stored = hooks.compact_sync([system(), user("start"), *steps(16, 350)]).messages
    if program != "the same":
        is_stored = program == "another with the store"
        hooks = controller(8_192, summarizer=asked, settings=PLAIN, store=store if is_stored else None)
    hooks.load_sync(stored)
    assert hooks.undo() is None
    assert "undo does nothing: the list is a stored result" in caplog.text
    assert hooks.state().compaction_count == (program != "another without")
    hooks.transform_context_sync([*stored, *steps(24, 350, first=40)])
    assert "- ALPHA" in str(asked.requests[-1].previous_summary)


def test_undo_removes_another_workers_record_of_the_same_messages_too() -> None:
    """Else the view would not change: the other summary would come into force."""
    messages = [system(), *talk(12)]
    one, other = (summarizing(Scripted(f"- by worker {name}")) for name in "ab")
    one.compact_sync(messages)
    other.compact_sync(messages)
    one.session("default").import_records(other.session("default").export_records())
    assert "by worker" in texts(one.transform_context_sync(messages))
    one.undo()
    assert one.transform_context_sync(messages) is messages


def test_a_redo_after_an_undo_is_a_compaction_like_any_other() -> None:
    hooks = summarizing(Scripted("- the same each time"))
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
    hooks = summarizing(Scripted("- taken back"))
    messages = [system(), *talk(12)]
    chat, other = hooks.session("a"), AnthropicFormat()
    chat.compact_sync(messages)
    turns: list[Chat] = [dict(message) for message in messages[1:]]
    assert "- taken back" in str(hooks.session("a", other).transform_context_sync(turns))
    hooks.session("a", OpenAIChatFormat()).undo()
    assert hooks.session("a", other).transform_context_sync(turns) is turns


def test_an_undo_while_the_next_compaction_runs_holds() -> None:
    undone: list[object] = []

    def summarize(request: SummaryRequest) -> str:
        if request.previous_summary:
            undone.append(hooks.undo())
        return "## Goal\n- the undone one"

    messages, longer = MESSAGES, [*MESSAGES, *talk(20, first=20)]
    for window in (100_000, 8_192):
        undone.clear()
        hooks = controller(window, summarizer=summarize)
        hooks.compact_sync(messages)
        view = hooks.compact_sync(longer).messages
        assert undone
        assert (view == longer) == (hooks.history() == []) == (window == 100_000), "it fits this window as it is"
        assert (hooks.transform_context_sync(longer) is longer) == (view == longer)


async def test_an_undo_reaches_an_async_store_from_within_its_own_loop() -> None:
    """`undo` is no coroutine: it leaves the removal to the next call."""
    store, events = OfOneLoop(), list[CompactionEvent]()
    hooks = summarizing(store=store, events=events)
    await hooks.compact(one_task(10))
    assert len(await store.load("default")) == 1
    hooks.undo()
    await hooks.transform_context(one_task(10))
    assert await store.load("default") == []
    assert not [event for event in events if isinstance(event, StoreFailed)]
