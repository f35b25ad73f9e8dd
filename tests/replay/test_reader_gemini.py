"""Gemini CLI's chats, in one object or on lines, and its checkpoints; Qwen Code's tree of the same contents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import Fields
from tests.replay.samples import Json, Read, assert_calls_are_answered, blocks, read_one, shape, write

HEADER = {"sessionId": "g1", "projectHash": "p", "startTime": "t", "lastUpdated": "t"}
TOKENS = {"input": 100, "output": 7, "cached": 60, "thoughts": 3, "tool": 10, "total": 120}


def user(words: str, message_id: str = "u") -> Json:
    return {"id": message_id, "type": "user", "content": [{"text": words}]}


def answer(words: str, *calls: Json, message_id: str = "a", **more: object) -> Json:
    return {"id": message_id, "type": "gemini", "content": words, "toolCalls": list(calls), "model": "gemini-x", **more}


def call(call_id: str, result: object = "", status: str = "success") -> Json:
    response = {"functionResponse": {"id": call_id, "name": "read", "response": {"output": f"found {call_id}"}}}
    return {
        "id": call_id,
        "name": "read",
        "args": {"path": call_id},
        "status": status,
        "result": [response] if result == "" else result,
    }


def chat(path: Path, *messages: Json) -> Path:
    path.write_text(json.dumps({**HEADER, "messages": messages}, indent=2), encoding="utf-8")
    return path


def contents(message: Fields) -> list[object]:
    return [block["content"] for block in blocks(message)]


def test_an_answer_holds_its_calls_and_their_results(tmp_path: Path) -> None:
    """Gemini's input includes the cached part, but input and output do not include tool use and thoughts."""
    thoughts = [{"subject": "Plan", "description": "Read it.", "timestamp": "t"}]
    path = chat(
        tmp_path / "session-1.json",
        user("read"),
        {"id": "i", "type": "info", "content": "Update available!"},
        answer("Reading.", call("c1"), call("c2"), thoughts=thoughts, tokens=TOKENS),
        {"id": "u2", "type": "user", "content": "and now?"},
        answer("Done.", message_id="a2", tokens={**TOKENS, "input": 0}),
    )
    session = read_one(path)
    assert (session.id, session.format_name, session.model) == ("g1", "Gemini CLI session", "gemini-x")
    assert shape(session) == [
        "user:text",
        "assistant:thinking,text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "user:text",
        "assistant:text",
    ]
    assert_calls_are_answered(session.messages)
    assert contents(session.messages[2]) == ["found c1", "found c2"]
    usage = Usage(input_tokens=110, output_tokens=10, cache_read_tokens=60)
    assert [(each.index, each.usage) for each in session.calls] == [(1, usage)]
    assert session.skipped == ("no part of the conversation: info 1",)


@pytest.mark.parametrize(
    ("asked", "content", "is_error"),
    [
        pytest.param(call("c1", None, "cancelled"), None, True, id="cancelled"),
        pytest.param(
            call("c1", [{"functionResponse": {"response": {"error": "no such file"}}}], "error"),
            "no such file",
            True,
            id="error",
        ),
        pytest.param(
            call("c1", [{"functionResponse": {"id": "other", "response": {"rows": 3}}}]),
            '{"rows":3}',
            False,
            id="object",
        ),
        pytest.param(
            call(
                "c1",
                [
                    {"functionResponse": {"id": "c1", "response": {"output": "an image"}}},
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                ],
            ),
            [
                {"type": "text", "text": "an image"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ],
            False,
            id="with-an-image",
        ),
        pytest.param(call("c1", "plain"), [{"type": "text", "text": "plain"}], False, id="no-response"),
    ],
)
def test_results_come_in_several_shapes(tmp_path: Path, asked: Json, content: object, is_error: bool) -> None:
    session = read_one(chat(tmp_path / "s.json", user("go"), answer("", asked)))
    (block,) = blocks(session.messages[2])
    assert content in (None, block["content"])
    assert block.get("is_error", False) is is_error
    unanswered = ("1 call without a recorded result: a stand-in says so",) if content is None else ()
    assert session.skipped == unanswered


def test_a_notice_that_came_between_does_not_split_an_answer_from_its_calls(tmp_path: Path) -> None:
    nothing = dict.fromkeys(TOKENS, 0)
    notice = {"id": "i", "type": "warning", "content": "slow"}
    session = read_one(
        chat(
            tmp_path / "s.json",
            user("go"),
            answer("Reading.", tokens=TOKENS),
            notice,
            answer("", call("c1"), message_id="a2", tokens=nothing),
        )
    )
    assert shape(session) == ["user:text", "assistant:text,tool_use", "user:tool_result"]


def test_lines_are_read_as_they_count_in_the_end(read: Read) -> None:
    """In the form of version 0.40 and later: a message is written again after its tool calls have run."""
    session = read(
        {**HEADER, "kind": "main"},
        user("one", "u1"),
        answer("Reading.", message_id="a1"),
        answer("Reading.", call("c1"), message_id="a1"),
        {"$set": {"lastUpdated": "t2"}},
        user("two", "u2"),
        answer("never mind", message_id="a2"),
        {"$rewindTo": "u2"},
        user("three", "u3"),
        answer("3", message_id="a3"),
        {"$rewindTo": "nowhere"},
        {"odd": 1},
    )
    said = [block["text"] for message in session.messages for block in blocks(message) if "text" in block]
    assert said == ["one", "Reading.", "three", "3"]
    assert_calls_are_answered(session.messages)
    assert session.skipped == (
        "line 8: took back 2 messages before it",
        "line 11: goes back to a message that is not there: nothing is taken back",
        "no part of the conversation: unknown 1",
    )


def test_the_session_of_a_sub_agent_says_so(tmp_path: Path) -> None:
    session = read_one(write(tmp_path / "s.jsonl", {**HEADER, "kind": "subagent"}, user("go"), answer("1")))
    assert session.skipped == ("this is the session of a sub-agent",)


def test_a_history_that_was_written_anew_takes_the_place_of_the_old(tmp_path: Path) -> None:
    anew = {"$set": {"messages": [user("one"), answer("1", message_id="b1")]}}
    session = read_one(write(tmp_path / "s.jsonl", HEADER, user("old", "o"), answer("old", message_id="p"), anew))
    assert [blocks(message)[0]["text"] for message in session.messages] == ["one", "1"]
    assert session.skipped == ("line 4: the agent wrote its history anew, in place of 2 messages",)


@pytest.mark.parametrize("is_wrapped", [pytest.param(True, id="object"), pytest.param(False, id="list")])
def test_a_checkpoint_is_the_apis_own_history(tmp_path: Path, is_wrapped: bool) -> None:
    history = [
        {"role": "user", "parts": [{"text": "go"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True, "thoughtSignature": "sig"},
                {"text": "Reading."},
                {"functionCall": {"name": "read", "args": {"path": "a"}}},
                {"functionCall": {"name": "read", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "A"}}},
                {"functionResponse": {"name": "read", "response": {"output": "B"}}},
            ],
        },
        {"role": "model", "parts": []},
        {"role": "model", "parts": [{"text": "Done."}, {"executableCode": {"code": "1"}}]},
    ]
    path = tmp_path / "checkpoint-x.json"
    path.write_text(json.dumps({"history": history, "authType": "x"} if is_wrapped else history, indent=2))
    session = read_one(path)
    assert shape(session) == [
        "user:text,image",
        "assistant:thinking,text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "assistant:text,executableCode",
    ]
    assert_calls_are_answered(session.messages)
    assert contents(session.messages[2]) == ["A", "B"]
    assert session.skipped == ("no part of the conversation: model 1",)


def test_the_log_of_prompts_is_named_as_holding_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "logs.json"
    path.write_text(
        json.dumps([{"sessionId": "g1", "messageId": 0, "type": "user", "message": "go", "timestamp": "t"}])
    )
    with pytest.raises(ReplayError, match=r"no model has answered in it \(Gemini CLI\)"):
        list(read_sessions(path))


# -- Qwen Code


def qwen(uuid: str, parent: str | None, role: str, *parts: Json, **more: object) -> Json:
    kind = "assistant" if role == "model" else "user"
    message = {"role": role, "parts": list(parts)}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "q1", "type": kind, "message": message, **more}


def test_the_path_to_the_last_line_is_the_conversation(read: Read) -> None:
    counted = {"promptTokenCount": 90, "candidatesTokenCount": 4, "cachedContentTokenCount": 50}
    session = read(
        qwen("1", None, "user", {"text": "go"}),
        qwen("2", "1", "model", {"text": "left"}),
        {"uuid": "3", "parentUuid": "1", "sessionId": "q1", "type": "system", "subtype": "rewind"},
        qwen("4", "3", "user", {"text": "go on"}),
        qwen("5", "4", "model", {"text": "hm", "thought": True}),
        qwen("5", "4", "model", {"functionCall": {"id": "c1", "name": "read", "args": {}}}, usageMetadata=counted),
        qwen("6", "5", "user", {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "A"}}}),
        qwen("7", "6", "model", {"text": "Done."}, model="qwen-x"),
    )
    assert (session.id, session.format_name, session.model) == ("q1", "Qwen Code session", "qwen-x")
    assert shape(session) == [
        "user:text",
        "user:text",
        "assistant:thinking,tool_use",
        "user:tool_result",
        "assistant:text",
    ]
    assert_calls_are_answered(session.messages)
    assert [(each.index, each.usage.input_tokens) for each in session.calls] == [(2, 90)]
    assert session.skipped == (
        "line 2: on a branch the user went back from",
        "no part of the conversation: system rewind 1",
    )


def test_a_broken_tree_costs_no_message(read: Read) -> None:
    session = read(
        qwen("1", None, "user", {"text": "go"}),
        qwen("2", "1", "model", {"text": "1"}) | {"parentUuid": 7},
        '{"uuid": "3", "parentU',
        qwen("4", "3", "user", {"text": "on"}),
        qwen("5", "4", "model", {"text": "2"}),
    )
    assert [blocks(message)[0]["text"] for message in session.messages] == ["go", "1", "on", "2"]
    assert session.skipped == (
        'line 3: not JSON: \'{"uuid": "3", "parentU\'',
        "a message whose parent is missing: all lines count, also those gone back from",
    )


@pytest.mark.parametrize(
    ("damage", "notes"),
    [
        pytest.param({"parentUuid": 7}, (), id="odd-parent"),
        pytest.param({"parentUuid": ...}, (), id="no-parent"),
        pytest.param({"uuid": "2", "parentUuid": "2"}, (), id="repeated-id"),
        pytest.param(
            {"uuid": ...},
            ("a message whose parent is missing: all lines count, also those gone back from",),
            id="no-id",
        ),
    ],
)
def test_a_damaged_last_line_costs_no_message(tmp_path: Path, damage: Json, notes: tuple[str, ...]) -> None:
    last = {name: value for name, value in {**qwen("3", "2", "user", {"text": "on"}), **damage}.items() if value != ...}
    lines = (qwen("1", None, "user", {"text": "go"}), qwen("2", "1", "model", {"text": "1"}))
    session = read_one(write(tmp_path / "q.jsonl", *lines, last))
    assert [blocks(message)[0]["text"] for message in session.messages] == ["go", "1", "on"]
    assert session.skipped == notes
