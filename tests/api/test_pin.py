"""`session.pin(message)`: kept for good, whatever becomes of the process."""

from pathlib import Path
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, Message, PinMissing, project
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore, RecordStore, SQLiteStore
from compaction_hooks.testing import as_anthropic, check_view
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    Scripted,
    assistant,
    call,
    controller,
    elsewhere,
    prose,
    steps,
    system,
    talk,
    tool,
    user,
)
from tests.stores.opened import LaterStore


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


def test_pins_and_compactions_by_hand_survive_a_thousand_other_conversations() -> None:
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


def test_pinning_a_system_message_shows_it_once() -> None:
    """It stays anyway; a user message with the same words does not, unless it is pinned."""
    rule, said = system("Never touch the public API."), user("Never touch the public API.")
    messages = [rule, said, assistant("understood"), *talk(15)]
    for pinned in (rule, said):
        hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(keep_user_tokens=0))
        hooks.pin(pinned)
        view = hooks.transform_context_sync(messages)
        assert [message for message in view if message["role"] == "system"] == [rule]
        assert (said in view) == (pinned is said)
        assert elsewhere(hooks, messages) == view


def test_a_pinned_result_is_neither_cleared_nor_shortened() -> None:
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
    hooks = controller(8_192, summarizer=Scripted(), settings=PLAIN)
    hooks.pin(late)
    view = hooks.transform_context_sync(messages)
    assert any(message is late for message in view)
    assert any(message is caller for message in view)
    assert len(view) < len(messages) / 2


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


def test_a_stored_view_with_a_pinned_step_is_compacted_as_the_full_list() -> None:
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


def items_with_reasoning(steps: range) -> list[Any]:
    """Return steps of OpenAI Responses: a request of the user, an item of reasoning, a call and its result."""
    return [
        item
        for step in steps
        for item in (
            {"role": "user", "content": f"Read file {step}. {prose(200)}"},
            {"type": "reasoning", "id": f"rs_{step}", "summary": [{"type": "summary_text", "text": f"thought {step}"}]},
            {"type": "function_call", "call_id": f"c{step}", "name": "read", "arguments": f'{{"path": "{step}.py"}}'},
            {"type": "function_call_output", "call_id": f"c{step}", "output": f"file {step}"},
        )
    ]


def session_of_responses() -> Any:
    hooks = CompactionController[Any](
        format=OpenAIResponsesFormat(), context_window=20_000, summarizer=Scripted("- facts")
    )
    return hooks.session("run")


def test_pinning_reasoning_alone_pins_no_other_reasoning() -> None:
    """Digests leave reasoning out, so nothing tells one item of it from another."""
    messages = items_with_reasoning(range(10))
    other, session = session_of_responses(), session_of_responses()
    session.pin(messages[5])
    view = session.compact_sync(messages, keep_recent_tokens=20).messages
    assert view == other.compact_sync(messages, keep_recent_tokens=20).messages
    assert len(view) < 7


def test_a_stored_view_with_a_pinned_answer_and_its_reasoning_is_read_as_the_full_list() -> None:
    messages, more = items_with_reasoning(range(10)), items_with_reasoning(range(10, 14))
    session = session_of_responses()
    session.pin(messages[6])
    stored = session.compact_sync(messages, keep_recent_tokens=20).messages
    assert stored[1:4] == messages[5:8]

    session.compact_sync([*stored, *more], keep_recent_tokens=20)
    of_stored = session.history()[-1]
    whole = [*messages, *more]
    assert project(whole, of_stored, format=OpenAIResponsesFormat())[1:4] == messages[5:8]
    assert session.transform_context_sync(whole) == session.transform_context_sync([*stored, *more])


def test_a_message_is_pinned_as_the_list_of_the_call_had_it_though_the_list_was_changed_since() -> None:
    """Its run is that of the call's list, not that of whatever is at its place meanwhile; a changed message has none."""
    hooks: CompactionController[Any] = CompactionController(context_window=8_192, format=AnthropicFormat())
    asked = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    found: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": "found"}],
    }
    messages: list[Any] = [user("Go."), {"role": "assistant", "content": [asked]}, found, assistant("Done.")]
    found["content"] += [{"type": "text", "text": "Go on."}]
    hooks.transform_context_sync(messages)

    messages.insert(0, system())
    hooks.pin(found)
    found["content"].pop()
    hooks.pin(found)
    assert [pin.run for record in hooks.session("default").records for pin in record.pins] == [2, 2, -1]
