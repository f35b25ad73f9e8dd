"""`session.pin(message)`: kept for good, whatever becomes of the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compaction_hooks import CompactionSettings, Message, PinMissing, project
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.stores import MemoryStore, RecordStore, SQLiteStore
from compaction_hooks.testing import as_anthropic, check_view
from tests.conversations import (
    Chat,
    Controller,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    tool,
    user,
)
from tests.stores.later import LaterStore


def step_to_pin() -> list[Chat]:
    """Return a message with two tool calls, and their results: one message in Anthropic's form, two in OpenAI's."""
    return [
        assistant("Both files.", call("a", path="a.py"), call("b", path="b.py")),
        tool("a", "the contents of a"),
        tool("b", "the contents of b"),
    ]


RULE = user("Never touch the public API.")


def conversation() -> list[Chat]:
    return [*talk(3), RULE, assistant("Understood."), *talk(6, first=3)]


def process(store: RecordStore | None = None, **more: Any) -> Controller:
    """Return a controller as each start of the program makes it."""
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


def test_a_pinned_message_stays_in_every_view_from_then_on() -> None:
    rule = user("Never touch the public API.")
    hooks = controller(8_192, summarizer=Scripted())
    hooks.pin(rule)
    messages: list[Chat] = [rule, assistant("understood")]
    for n in range(40):
        messages = [*messages, *talk(1, first=n)]
        view = hooks.transform_context_sync(messages)
        assert any(message is rule for message in view)
    assert hooks.state().compaction_count >= 2


def test_pinning_a_system_message_shows_it_once() -> None:
    """It stays anyway; a user message with the same words does not."""
    rule, said = system("Never touch the public API."), user("Never touch the public API.")
    hooks = controller(8_192, summarizer=Scripted())
    messages = [rule, said, assistant("understood"), *talk(15)]
    hooks.pin(rule)
    view = hooks.transform_context_sync(messages)
    assert [message for message in view if message["role"] == "system"] == [rule]
    assert said not in view


def test_a_pinned_tool_result_keeps_its_call() -> None:
    result = tool("plan", "the plan: first parse, then port")
    hooks = controller(8_192, summarizer=Scripted())
    hooks.pin(result)
    messages = [user("go"), assistant(None, call("plan", "make_plan")), result, *talk(15)]
    view = hooks.transform_context_sync(messages)
    place = next(place for place, message in enumerate(view) if message is result)
    assert view[place - 1] is messages[1]


def test_the_request_that_was_current_is_summarised_once_another_is() -> None:
    """Pins of the current request stay until the next compaction summarizes them."""
    hooks = controller(8_192, summarizer=Scripted())
    old, new = user("the old request"), user("the new request")
    messages: list[Chat] = [old, *steps(20, 400)]
    assert any(message is old for message in hooks.compact_sync(messages, keep_recent_tokens=500).messages)
    messages = [*messages, assistant("done"), new, *steps(20, 400, first=20)]
    view = hooks.compact_sync(messages, keep_recent_tokens=500).messages
    assert any(message is new for message in view)
    assert not any(message is old for message in view)


def test_pins_survive_in_a_stored_list() -> None:
    """A trimmed list that begins with summary and pins is compacted again: the request is still there."""
    request = user("the only request")
    hooks = controller(8_192, summarizer=Scripted())
    stored = hooks.compact_sync([request, *steps(20, 400)], keep_recent_tokens=500).messages
    again = hooks.compact_sync([*stored, *steps(20, 400, first=20)], keep_recent_tokens=500).messages
    assert again[1] is request
    assert len([message for message in again if message == request]) == 1


def test_a_pinned_result_is_neither_cleared_nor_shortened() -> None:
    """User pins stay for good, word for word."""
    messages = [system(), user("go"), *steps(24, 500)]
    hooks = controller(16_384)
    hooks.pin(messages[3])
    assert any(message is messages[3] for message in hooks.transform_context_sync(messages))
    huge = tool("z", prose(7_000))
    again = controller(8_192)
    again.pin(huge)
    view = again.transform_context_sync([user("go"), assistant("r", call("z")), huge])
    assert any(message is huge for message in view)


def test_pinning_a_late_result_keeps_its_call_and_no_more() -> None:
    late = tool("late", "finished")
    caller = assistant("started", call("late", "background"))
    messages = [user("go"), caller, *steps(3, 100), late, *steps(20, 300, first=3)]
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(clear_tool_results=False))
    hooks.pin(late)
    view = hooks.transform_context_sync(messages)
    assert any(message is late for message in view)
    assert any(message is caller for message in view)
    assert len(view) < len(messages) / 2


def test_a_pin_is_of_this_message_where_several_say_the_same() -> None:
    results = [tool(f"c{n}", "ok") for n in range(8)]
    messages: list[Chat] = [user("go")]
    for n, result in enumerate(results):
        messages += [assistant(prose(300), call(f"c{n}", "run", n=n)), result]
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(clear_tool_results=False))
    hooks.transform_context_sync(messages)
    hooks.pin(results[2])
    view = hooks.compact_sync([*messages, *talk(15)], keep_recent_tokens=500).messages
    assert [message for message in view if any(message is result for result in results)] == [results[2]]


def test_a_pin_outlives_the_deletion_of_older_messages() -> None:
    """Edits of the history are normal: the place of a pinned message changes, and it is kept all the same."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    kept = user("Never touch the public API. " + prose(20))
    messages = [*talk(3), kept, assistant("Understood."), *talk(6, first=3)]
    hooks.transform_context_sync(messages)
    hooks.pin(kept)
    edited = messages[4:]
    hooks.transform_context_sync(edited)
    result = hooks.compact_sync(edited, keep_recent_tokens=300)
    assert result.record is not None
    assert any(message is kept for message in result.messages)


def test_a_pin_set_before_an_edited_list_was_seen_holds() -> None:
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    kept = user("Never touch the public API. " + prose(20))
    messages = [*talk(3), kept, assistant("Understood."), *talk(6, first=3)]
    hooks.transform_context_sync(messages)
    edited = messages[2:]
    hooks.pin(kept)
    result = hooks.compact_sync(edited, keep_recent_tokens=300)
    assert any(message is kept for message in result.messages)


def test_a_pinned_step_stays_whole_in_another_format() -> None:
    """The two results are one message there, which no pin names; the call that is named brings them along."""
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    step = step_to_pin()
    messages = [user("Compare the two files."), *step, *steps(10)]
    hooks.transform_context_sync(messages)
    hooks.pin(step[1])
    result = hooks.compact_sync(messages, keep_recent_tokens=300)
    assert all(any(message is one for message in result.messages) for one in step)

    neutral: list[Message] = [piece for message in messages for piece in chat.read(message)]
    elsewhere = controller(200_000).session("elsewhere", anthropic)
    elsewhere.import_records(hooks.session("default").export_records())
    others = as_anthropic(neutral)
    view = elsewhere.transform_context_sync(others)
    assert result.record is not None
    check_view(others, view, format=anthropic, summaries=[result.record.rendered])
    assert others[1] in view
    assert others[2] in view
    assert len(view) < len(others)


def test_a_pinned_call_of_a_split_step_brings_its_siblings_where_their_results_are_one_message() -> None:
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    split = [
        assistant(None, call("a", path="a.py")),
        assistant(None, call("b", path="b.py")),
        tool("a", "the contents of a"),
        tool("b", "the contents of b"),
    ]
    messages = [user("Compare the two files."), *split, *steps(10)]
    hooks.transform_context_sync(messages)
    hooks.pin(split[1])
    result = hooks.compact_sync(messages, keep_recent_tokens=300)
    assert result.record is not None

    elsewhere = controller(200_000).session("elsewhere", anthropic)
    elsewhere.import_records(hooks.session("default").export_records())
    others = as_anthropic(piece for message in messages for piece in chat.read(message))
    view = elsewhere.transform_context_sync(others)
    assert len(view) < len(others)
    check_view(others, view, format=anthropic, summaries=[result.record.rendered])


def test_a_stored_view_with_a_pinned_step_is_read_as_what_it_stands_for() -> None:
    """A full list and a trimmed list agree: messages after the summary that repeat summarized ones are not shown twice."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    step = step_to_pin()
    messages = [user("Compare the two files."), *step, *steps(10)]
    hooks.transform_context_sync(messages)
    hooks.pin(step[1])
    stored = hooks.compact_sync(messages, keep_recent_tokens=300).messages

    more = steps(6, first=20)
    other = controller(200_000, summarizer=Scripted("- more facts")).session("other")
    other.import_records(hooks.session("default").export_records())
    result = other.compact_sync([*stored, *more], keep_recent_tokens=300)
    assert result.record is not None
    whole = [*messages, *more]
    assert project(whole, result.record) == result.messages
    assert all(any(message is one for message in result.messages) for one in step)
