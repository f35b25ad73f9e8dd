"""pi's session files: lists without a version, later trees."""

from __future__ import annotations

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.recorded import RecordedCompaction
from tests.replay.samples import Json, Read, assert_calls_are_answered, blocks, shape, text

HEADER = {"type": "session", "id": "p1", "cwd": "/x", "provider": "anthropic", "modelId": "m1"}
USAGE = {"input": 3, "output": 9, "cacheRead": 40, "cacheWrite": 7}


def entry(message: Json, entry_id: str = "", parent: str | None = None) -> Json:
    tree = {"id": entry_id, "parentId": parent} if entry_id else {}
    return {"type": "message", "timestamp": "2025-01-01T00:00:00Z", "message": message, **tree}


def user(words: str) -> Json:
    return {"role": "user", "content": [text(words)]}


def answer(*content: Json, stop: str = "stop") -> Json:
    return {"role": "assistant", "content": list(content), "model": "m1", "usage": USAGE, "stopReason": stop}


def call(call_id: str) -> Json:
    return {"type": "toolCall", "id": call_id, "name": "read", "arguments": {"path": call_id}}


def result(call_id: str, **more: object) -> Json:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "read",
        "content": [text("ok")],
        "isError": False,
        **more,
    }


def test_a_list_without_a_version_is_read_in_its_order(read: Read) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    session = read(
        HEADER,
        entry(user("read")),
        {"type": "thinking_level_change", "thinkingLevel": "low"},
        entry(answer(thinking, text("Reading."), call("c1"), call("c2"), stop="toolUse")),
        entry(result("c1")),
        entry(result("c2", isError=True)),
        entry(answer(text("Done."))),
    )
    assert (session.id, session.format_name, session.model) == ("p1", "pi session", "m1")
    assert shape(session) == [
        "user:text",
        "assistant:thinking,text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "assistant:text",
    ]
    assert blocks(session.messages[1])[0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert blocks(session.messages[1])[2] == {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "c1"}}
    assert [block.get("is_error", False) for block in blocks(session.messages[2])] == [False, True]
    assert_calls_are_answered(session.messages)
    assert session.skipped == ("lines without messages: thinking_level_change 1",)


def test_usage_is_the_whole_input_of_calls_that_ended_well(read: Read) -> None:
    """The input does not include the cached part; failed calls and zeros have no usage."""
    session = read(
        HEADER,
        entry(user("hello")),
        entry(answer(text("part of an"), stop="aborted")),
        entry(user("again")),
        entry({**answer(text("hi")), "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}),
        entry(user("more")),
        entry(answer(text("well"))),
    )
    (recorded,) = session.calls
    assert recorded.index == 5
    assert recorded.usage == Usage(input_tokens=50, output_tokens=9, cache_read_tokens=40, cache_write_tokens=7)


def test_only_the_path_to_the_last_entry_counts(read: Read) -> None:
    """Abandoned branches do not belong to the conversation."""
    session = read(
        {**HEADER, "version": 3},
        entry(user("hello"), "e1"),
        entry(answer(text("hi")), "e2", "e1"),
        entry(user("wrong way"), "e3", "e2"),
        entry(answer(text("oh")), "e4", "e3"),
        {"type": "branch_summary", "id": "e5", "parentId": "e2", "fromId": "e4", "summary": "tried the wrong way"},
        entry(user("right way"), "e6", "e5"),
        entry(answer(text("better")), "e7", "e6"),
    )
    assert shape(session) == ["user:text", "assistant:text", "user", "user:text", "assistant:text"]
    assert "tried the wrong way" in str(session.messages[2]["content"])
    assert session.skipped == ("2 entries on branches the user went back from",)


@pytest.mark.parametrize("lost", [pytest.param({"id": None}, id="null"), pytest.param({"id": 7}, id="a-number")])
def test_an_entry_that_lost_its_id_and_its_parent_follows_the_one_before(read: Read, lost: Json) -> None:
    session = read(
        {**HEADER, "version": 3},
        entry(user("hello"), "e1"),
        {**entry(answer(text("hi")), "e2"), **lost},
    )
    assert shape(session) == ["user:text", "assistant:text"]
    assert session.skipped == ("line 3: it has neither an id nor a parent, the entry before it is taken",)


def test_a_lost_line_does_not_lose_what_stood_before_it(read: Read) -> None:
    session = read(
        {**HEADER, "version": 3},
        entry(user("hello"), "e1"),
        entry(answer(text("hi")), "e2", "e1"),
        '{"type": "message", "id": "e3", "parentId": "e2", "mess',
        entry(answer(text("well")), "e4", "e3"),
    )
    assert shape(session) == ["user:text", "assistant:text", "assistant:text"]
    assert session.skipped == (
        'line 4: not JSON: \'{"type": "message", "id": "e3", "parentI\'',
        "line 5: its parent is missing, the entry before it is taken",
    )


def test_an_entry_that_is_its_own_parent_ends_no_reading(read: Read) -> None:
    session = read(HEADER, entry(user("hello"), "e1", "e1"), entry(answer(text("hi")), "e2", "e1"))
    assert shape(session) == ["user:text", "assistant:text"]


def test_a_compaction_leaves_the_whole_conversation(read: Read) -> None:
    session = read(
        {**HEADER, "version": 3},
        entry(user("one"), "e1"),
        entry(answer(text("1")), "e2", "e1"),
        entry(user("two"), "e3", "e2"),
        entry(answer(text("2")), "e4", "e3"),
        {
            "type": "compaction",
            "id": "e5",
            "parentId": "e4",
            "summary": "one",
            "firstKeptEntryId": "e3",
            "tokensBefore": 90,
        },
        entry(user("three"), "e6", "e5"),
        entry(answer(text("3")), "e7", "e6"),
    )
    assert len(session.messages) == 6
    assert session.compactions == (RecordedCompaction(index=4, tokens_before=90, summary="one"),)
    assert [recorded.context_start for recorded in session.calls] == [0, 0, 2]


def test_version_one_names_the_first_kept_entry_by_its_place(read: Read) -> None:
    session = read(
        HEADER,
        entry(user("one")),
        entry(answer(text("1"))),
        entry(user("two")),
        entry(answer(text("2"))),
        {"type": "compaction", "summary": "one", "firstKeptEntryIndex": 3, "tokensBefore": 90},
        entry(user("three")),
        entry(answer(text("3"))),
    )
    assert [recorded.context_start for recorded in session.calls] == [0, 0, 2]


def test_images_commands_and_notes_of_extensions_are_told(read: Read) -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    session = read(
        HEADER,
        entry({"role": "user", "content": [picture]}),
        entry({"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0}),
        entry({"role": "bashExecution", "command": "env", "output": "secret", "excludeFromContext": True}),
        {"type": "custom_message", "customType": "note", "content": "remember this"},
        entry(answer(text("ok"), {"type": "thinking", "thinking": "", "thinkingSignature": "xyz", "redacted": True})),
        entry(answer(stop="error")),
    )
    assert blocks(session.messages[0]) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    ]
    assert [message["content"] for message in session.messages[1:3]] == ["Ran `ls`\n\na.py", "remember this"]
    assert blocks(session.messages[3])[1] == {"type": "redacted_thinking", "data": "xyz"}
    assert session.skipped == ("lines without messages: empty bashExecution 1, empty assistant 1",)
