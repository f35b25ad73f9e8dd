"""What the user pinned stays, whatever the host does to the list, and whichever framework goes on with it."""

from __future__ import annotations

from compaction_hooks import Message, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.testing import as_anthropic, check_view
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, talk, tool, user


def pinned_step() -> list[Chat]:
    """One message with two calls, and their results: one message in Anthropic's form, two in OpenAI's."""
    return [
        assistant("Both files.", call("a", path="a.py"), call("b", path="b.py")),
        tool("a", "the contents of a"),
        tool("b", "the contents of b"),
    ]


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


def test_of_two_equal_messages_the_pinned_one_is_kept_and_no_other() -> None:
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    first, second = user("Go on. " + prose(20)), user("Go on. " + prose(20))
    messages = [*talk(2), first, assistant("Yes."), *talk(2, first=2), second, assistant("Yes."), *talk(6, first=4)]
    hooks.transform_context_sync(messages)
    hooks.pin(second)
    view = hooks.compact_sync(messages, keep_recent_tokens=300).messages
    assert any(message is second for message in view)
    assert not any(message is first for message in view)


def test_a_pinned_step_stays_whole_in_another_format() -> None:
    """The two results are one message there, which no pin names; the call that is named brings them along."""
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    step = pinned_step()
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
    """A full list and a trimmed list agree: what follows the summary and repeats what it covers is not said a second time."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    step = pinned_step()
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
