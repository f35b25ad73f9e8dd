"""Claude Code's session files: a tree of lines becomes the conversation sent to the model."""

from __future__ import annotations

from pathlib import Path

from compaction_hooks.messages import Usage
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.readers.builder import NO_RESULT
from compaction_hooks.replay.recorded import RecordedCompaction
from tests.replay.samples import (
    Json,
    Read,
    assert_calls_are_answered,
    blocks,
    call,
    read_one,
    result,
    shape,
    text,
    write,
)

USAGE = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7, "output_tokens": 1}


def line(uuid: str, parent: str | None, kind: str, content: object, **more: object) -> Json:
    message: Json = {"role": kind, "content": content}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "message": message, **more}


def user(uuid: str, parent: str | None, content: object, **more: object) -> Json:
    return line(uuid, parent, "user", content, **more)


def answer(uuid: str, parent: str | None, message_id: str, *content: Json, **more: object) -> Json:
    made = line(uuid, parent, "assistant", list(content), **more)
    return {**made, "message": {**made["message"], "id": message_id, "model": "claude-x", "usage": USAGE}}


def test_blocks_of_one_answer_come_together_with_all_results_behind_them(read: Read) -> None:
    """Results are logged during the answer, with the line of their tool call as parent."""
    session = read(
        user("u1", None, "read two files"),
        answer("a1", "u1", "m1", {"type": "thinking", "thinking": "both", "signature": "sig"}),
        answer("a2", "a1", "m1", text("Reading.")),
        answer("a3", "a2", "m1", call("c1")),
        user("r1", "a3", [result("c1")]),
        answer("a4", "a3", "m1", call("c2")),
        user("r2", "a4", [result("c2")]),
        answer("a5", "r2", "m2", text("Done.")),
    )
    assert shape(session) == [
        "user",
        "assistant:thinking,text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "assistant:text",
    ]
    assert blocks(session.messages[1])[0]["signature"] == "sig"
    assert_calls_are_answered(session.messages)
    assert session.skipped == ()
    assert (session.id, session.format_name, session.model) == ("s1", "Claude Code session", "claude-x")


def test_usage_is_the_whole_input_once_for_each_answer(read: Read) -> None:
    """The input does not include the cached part. The output count is from the start of the stream."""
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("one")),
        answer("a2", "a1", "m1", text("two")),
    )
    (recorded,) = session.calls
    assert recorded.index == 1
    assert recorded.usage == Usage(input_tokens=50, output_tokens=0, cache_read_tokens=40, cache_write_tokens=7)


def test_a_line_without_usage_leaves_what_was_counted(tmp_path: Path) -> None:
    last = answer("a2", "a1", "m1", text("two"))
    last["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
    path = write(tmp_path / "s.jsonl", user("u1", None, "hello"), answer("a1", "u1", "m1", text("one")), last)
    assert [recorded.usage.input_tokens for recorded in read_one(path).calls] == [50]


def test_an_answer_goes_on_after_what_the_agent_itself_put_in(read: Read) -> None:
    session = read(
        user("u1", None, "use the skill"),
        answer("a1", "u1", "m1", call("c1")),
        user("r1", "a1", [result("c1")]),
        user("k1", "r1", [text("what the skill says")], isMeta=True),
        answer("a2", "k1", "m1", call("c2")),
        user("r2", "a2", [result("c2")]),
    )
    assert shape(session) == ["user", "assistant:tool_use,tool_use", "user:tool_result,tool_result", "user:text"]


def test_same_message_id_after_a_new_prompt_is_another_answer(read: Read) -> None:
    session = read(
        user("u1", None, "one"),
        answer("a1", "u1", "m1", text("1")),
        user("u2", "a1", "two"),
        answer("a2", "u2", "m1", text("2")),
    )
    assert shape(session) == ["user", "assistant:text", "user", "assistant:text"]


def test_text_beside_a_result_follows_all_results(read: Read) -> None:
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1"), call("c2")),
        user("r1", "a1", [result("c1"), text("[Request interrupted by user]")]),
        user("r2", "a1", [result("c2")]),
        answer("a2", "r2", "m2", text("ok")),
    )
    assert shape(session)[2:4] == ["user:tool_result,tool_result", "user:text"]
    assert_calls_are_answered(session.messages)


def test_a_call_without_a_result_gets_a_stand_in(read: Read) -> None:
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1")),
        user("u2", "a1", "never mind"),
        answer("a2", "u2", "m2", text("ok")),
    )
    assert blocks(session.messages[2])[0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": NO_RESULT,
        "is_error": True,
    }
    assert session.skipped == ("1 call without a recorded result: a stand-in says so",)


def test_a_call_without_an_id_can_be_answered(read: Read) -> None:
    nameless: Json = {"type": "tool_use", "name": "read", "input": {}}
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", nameless, nameless),
        user("r1", "a1", [{"type": "tool_result", "content": "first"}]),
        user("r2", "a1", [{"type": "tool_result", "content": "second"}]),
    )
    assert_calls_are_answered(session.messages)
    assert len({block["id"] for block in blocks(session.messages[1])}) == 2
    assert [block["content"] for block in blocks(session.messages[2])] == ["first", "second"]
    assert session.skipped == ()


def test_a_result_without_its_call_is_left_out(read: Read) -> None:
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1")),
        user("r1", "a1", [result("c1")]),
        user("r2", "a1", [result("c1")]),
        user("r3", "a1", [result("c9")]),
    )
    assert_calls_are_answered(session.messages)
    assert session.skipped == ("line 4: a second result of one call", "line 5: a result without its call")


def test_sub_agents_are_left_out(read: Read) -> None:
    session = read(
        user("u1", None, "hello"),
        user("x1", None, "explore", isSidechain=True),
        answer("x2", "x1", "m9", text("explored"), isSidechain=True),
        answer("a1", "u1", "m1", text("hi")),
    )
    assert shape(session) == ["user", "assistant:text"]
    assert session.skipped == ("2 lines of sub-agents",)


def test_a_sub_agents_own_file_is_a_session(read: Read) -> None:
    session = read(
        user("x1", None, "explore", isSidechain=True),
        answer("x2", "x1", "m9", text("explored"), isSidechain=True),
    )
    assert shape(session) == ["user", "assistant:text"]


def test_a_branch_the_user_went_back_from_is_left_out(read: Read) -> None:
    """Bookkeeping lines are between the prompts and the answer before them."""
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("hi")),
        {"type": "system", "subtype": "stop_hook_summary", "uuid": "h1", "parentUuid": "a1"},
        user("u2", "h1", "wrong way"),
        answer("a2", "u2", "m2", call("c1")),
        user("r1", "a2", [result("c1")]),
        user("u3", "a1", "right way"),
        answer("a3", "u3", "m3", text("better")),
    )
    assert [message["content"] for message in session.messages if message["role"] == "user"] == ["hello", "right way"]
    assert session.skipped == (
        "lines without messages: system 1",
        "3 lines on branches the user went back from, the first in line 4",
    )


def test_an_answer_that_was_asked_for_again_counts_once(read: Read) -> None:
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("first")),
        answer("a2", "u1", "m2", text("second")),
        answer("a3", "u1", "m2", text("and more")),
    )
    assert [blocks(message) for message in session.messages[1:]] == [[text("second"), text("and more")]]


def test_a_branch_ends_with_its_compaction_and_what_follows_it(read: Read) -> None:
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("hi")),
        user("u2", "a1", "wrong way"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None, "logicalParentUuid": "u2"},
        user("k1", "b1", "Summary of before", isCompactSummary=True),
        answer("a2", "k1", "m2", text("lost")),
        user("u3", "a1", "right way"),
        answer("a3", "u3", "m3", text("better")),
    )
    assert shape(session) == ["user", "assistant:text", "user", "assistant:text"]
    assert session.compactions == ()


def test_the_rest_of_an_answer_and_what_the_agent_put_in_are_no_branches(read: Read) -> None:
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("one moment")),
        answer("a2", "a1", "m1", call("c1")),
        user("r1", "a2", [result("c1")]),
        user("k1", "a1", [text("reminder")], isMeta=True),
        user("u2", "a1", "wait"),
        answer("a3", "u2", "m2", text("yes?")),
    )
    assert shape(session) == [
        "user",
        "assistant:text,tool_use",
        "user:tool_result",
        "user:text",
        "user",
        "assistant:text",
    ]


def test_results_that_hang_off_several_parents_are_no_branches(read: Read) -> None:
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1")),
        answer("a2", "a1", "m1", call("c2")),
        user("r1", "a1", [result("c1")]),
        user("r2", "a2", [result("c2")]),
        answer("a3", "r2", "m2", text("ok")),
    )
    assert shape(session) == ["user", "assistant:tool_use,tool_use", "user:tool_result,tool_result", "assistant:text"]
    assert session.skipped == ()


def test_lines_that_point_at_themselves_are_read_in_their_order(read: Read) -> None:
    session = read(
        user("x", "x", "hello"),
        answer("w", "x", "m1", text("hi")),
        user("y", "z", "and now"),
        answer("z", "y", "m2", text("well")),
    )
    assert len(session.messages) == 4


def test_lines_a_resumed_session_repeats_count_once(tmp_path: Path) -> None:
    begin = [user("u1", None, "hello"), answer("a1", "u1", "m1", text("hi"))]
    path = write(tmp_path / "s.jsonl", *begin, *begin, user("u2", "a1", "go on"), answer("a2", "u2", "m2", text("ok")))
    assert shape(read_one(path)) == ["user", "assistant:text", "user", "assistant:text"]


def test_lines_that_share_an_id_but_not_their_content_both_count(read: Read) -> None:
    session = read(
        user("u1", None, "one"),
        user("u1", None, "two"),
        answer("a1", "u1", "m1", text("both")),
    )
    assert shape(session) == ["user", "user", "assistant:text"]


def test_a_compaction_leaves_the_whole_conversation(read: Read) -> None:
    """The summary is recognized, and usage names the first message that it includes."""
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "r1",
        "compactMetadata": {"trigger": "auto", "preTokens": 170_000},
    }
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1")),
        user("r1", "a1", [result("c1")]),
        boundary,
        user("k1", "b1", "This session is being continued ...", isCompactSummary=True),
        answer("a2", "k1", "m2", text("going on")),
    )
    assert shape(session) == ["user", "assistant:tool_use", "user:tool_result", "assistant:text"]
    assert session.compactions == (
        RecordedCompaction(
            index=3, tokens_before=170_000, trigger="auto", summary="This session is being continued ..."
        ),
    )
    assert [recorded.context_start for recorded in session.calls] == [0, 3]


def test_a_summary_without_its_boundary_marks_the_compaction(read: Read) -> None:
    session = read(
        user("k1", None, "Summary of before", isCompactSummary=True),
        user("u1", "k1", "go on"),
        answer("a1", "u1", "m1", text("ok")),
    )
    assert shape(session) == ["user", "assistant:text"]
    assert session.compactions == (RecordedCompaction(index=0, summary="Summary of before"),)


def test_clearing_the_context_begins_another_session(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        user("u1", None, "one"),
        answer("a1", "u1", "m1", text("1")),
        user("u2", "a1", "<command-name>/clear</command-name>\n<command-args></command-args>"),
        user("u3", "u2", "two"),
        answer("a2", "u3", "m2", text("2")),
    )
    first, second = read_sessions(path)
    assert (first.id, second.id) == ("s1", "s1#2")
    assert [message["content"] for message in second.messages][:1] == ["two"]
    assert [recorded.index for recorded in second.calls] == [1]


def test_what_the_user_typed_meanwhile_is_heard(read: Read) -> None:
    queued = {"type": "queued_command", "prompt": "and the tests", "commandMode": "prompt"}
    session = read(
        user("u1", None, "read"),
        answer("a1", "u1", "m1", call("c1")),
        user("r1", "a1", [result("c1")]),
        {"type": "attachment", "uuid": "q1", "parentUuid": "r1", "attachment": queued},
        answer("a2", "q1", "m2", text("ok")),
    )
    assert session.messages[3] == {"role": "user", "content": "and the tests"}


def test_what_no_model_said_and_what_is_broken_is_skipped_by_line(read: Read) -> None:
    session = read(
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", text("API Error"), isApiErrorMessage=True),
        answer("a2", "a1", "m2"),
        {
            **user("s1", "a1", ""),
            "type": "assistant",
            "message": {"model": "<synthetic>", "content": [text("No response.")]},
        },
        {**user("u2", None, ""), "message": "error"},
        {**user("u3", None, ""), "message": {"role": "user", "contenst": []}},
        user("u4", None, ["not a block"]),
        {"type": "summary", "summary": "a title"},
        {"type": "progress", "uuid": "p1"},
        answer("a3", "a2", "m3", text("hi")),
    )
    assert shape(session) == ["user", "assistant:text"]
    assert session.skipped == (
        "line 2: an answer that no model gave",
        "line 4: an answer that no model gave",
        "line 5: its message is no object",
        "lines without messages: summary 1, progress 1",
        "line 3: an answer without content",
        "line 6: content that is neither text nor blocks",
        "line 7: content that is neither text nor blocks",
    )


def test_images_and_errors_in_results_stay(read: Read) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    shown = {"type": "tool_result", "tool_use_id": "c1", "content": [picture], "is_error": True}
    session = read(user("u1", None, "look"), answer("a1", "u1", "m1", call("c1")), user("r1", "a1", [shown]))
    assert blocks(session.messages[2]) == [shown]
