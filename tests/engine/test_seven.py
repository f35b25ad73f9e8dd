"""The seven tests that the founding system names, ported by name."""

from __future__ import annotations

from collections.abc import Mapping

from compaction_hooks import CompactionSettings, project
from tests.conversations import Scripted, assistant, controller, prose, steps, system, talk, texts, user

Chat = Mapping[str, object]


def test_summary_is_inserted_and_the_cut_point_message_is_kept() -> None:
    """The summary stands where the covered part was, and the message at the cut stays."""
    messages = [system(), *talk(12)]
    result = controller(8_192, summarizer=Scripted("## Goal\n- learn")).compact_sync(messages, keep_recent_tokens=900)
    assert "## Goal" in texts(result.messages[1:2])
    first_kept = result.messages[2]
    assert any(first_kept is message for message in messages)
    assert messages[-len(result.messages) + 2] is first_kept


def test_split_turn_heading() -> None:
    """A turn cut in two has its first part summarised on its own, under this heading."""
    asked = Scripted("## Goal\n- the history", "- read the modules")
    messages = [*talk(4), user("Now port it."), *steps(14)]
    result = controller(8_192, summarizer=asked).compact_sync(messages, keep_recent_tokens=900)
    assert result.record is not None
    history, _, prefix = result.record.summary.partition("## Turn Context (split turn)")
    assert "the history" in history
    assert "read the modules" in prefix
    covered = [message.text for message in asked.requests[1].messages]
    assert covered[0] == "Now port it."
    kept = texts(result.messages[3:])
    assert not any(text and text in kept for text in covered[1:])


def test_no_compaction_under_limit() -> None:
    """Below the threshold the very list comes back."""
    messages = [system(), *talk(3)]
    assert controller(8_192).transform_context_sync(messages) is messages


def test_compaction_after_existing_summary() -> None:
    """The new summary updates the old one and lands after what it covered."""
    asked = Scripted("first summary", "second summary")
    hooks = controller(8_192, summarizer=asked)
    messages = talk(12)
    first = hooks.compact_sync(messages, keep_recent_tokens=900)
    longer = [*first.messages, *talk(12, first=12)]
    second = hooks.compact_sync(longer, keep_recent_tokens=900)
    assert asked.requests[1].previous_summary == "first summary"
    assert "first summary" not in asked.requests[1].transcript
    assert "first summary" not in texts(second.messages)
    assert "second summary" in texts(second.messages[:1])


def test_hidden_blocks_in_digest() -> None:
    """Results that the view already hid are named in the digest with what stood in their place."""
    hooks = controller(16_384, summarizer=Scripted("summary"))
    messages = [user("go"), *steps(24, result_tokens=500)]
    hooks.transform_context_sync(messages)
    (cleared,) = hooks.session("default").export_records()
    assert cleared["reductions"]
    assert not cleared["rendered"]
    longer = [*messages, *steps(24, result_tokens=500, first=24)]
    settings = CompactionSettings(clear_tool_results=False)
    other = controller(16_384, summarizer=Scripted("summary"), settings=settings)
    other.session("default").import_records([cleared])
    record = other.compact_sync(longer).record
    assert record is not None
    hidden = record.digest["hidden"]
    assert isinstance(hidden, list | tuple)
    assert "Old tool result cleared" in str(hidden[0])
    assert "read_file" in str(hidden[0])


def test_tool_call_boundary() -> None:
    """What is kept never begins with a tool result, whatever the number of tokens."""
    messages = [user("go"), *steps(12, result_tokens=200)]
    for keep in range(300, 2_400, 150):
        view = controller(8_192, summarizer=Scripted()).compact_sync(messages, keep_recent_tokens=keep).messages
        kept = [message for message in view if any(message is host for host in messages[1:])]
        assert kept[0]["role"] == "assistant"


def test_cache_points_after_render() -> None:
    """Cache marks of what is kept survive, in the view and after the view was stored."""
    mark = {"cache_control": {"type": "ephemeral"}}
    marked: Chat = {"role": "user", "content": [{"type": "text", "text": "next? " + prose(20), **mark}]}
    messages = [system(), user("go"), *steps(12), assistant("done"), marked]
    result = controller(8_192, summarizer=Scripted()).compact_sync(messages)
    assert result.messages[-1] is marked
    assert project([*result.messages, assistant("x")], result.record)[-2] is marked
