"""OpenCode's sessions: exported, and in the storage folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedCompaction
from tests.replay.samples import Json, assert_calls_are_answered, blocks, read_one, shape

INFO = {"id": "ses_1", "projectID": "p", "directory": "/x", "time": {"created": 1}}
TOKENS = {"input": 10, "output": 7, "reasoning": 2, "cache": {"read": 60, "write": 30}}


def part(kind: str, **more: object) -> Json:
    return {"type": kind, **more}


def text(words: str, **more: object) -> Json:
    return part("text", text=words, **more)


def tool(call_id: str, status: str = "completed", **state: object) -> Json:
    return part("tool", callID=call_id, tool="read", state={"status": status, "input": {"path": call_id}, **state})


def message(message_id: str, role: str, *parts: Json, **info: object) -> Json:
    return {"info": {"id": message_id, "role": role, "modelID": "m1", **info}, "parts": list(parts)}


def export(path: Path, *messages: Json, **info: object) -> Path:
    path.write_text(json.dumps({"info": {**INFO, **info}, "messages": messages}, indent=2), encoding="utf-8")
    return path


def test_each_step_of_an_answer_is_a_call_of_the_model(tmp_path: Path) -> None:
    """OpenCode's input does not include the cached part, nor its output the reasoning."""
    path = export(
        tmp_path / "export.json",
        message(
            "m1", "user", text("go"), text("hidden", ignored=True), part("file", mime="text/plain", url="file:///a")
        ),
        message(
            "m2",
            "assistant",
            part("step-start"),
            part("reasoning", text="hm", metadata={"anthropic": {"signature": "sig"}}),
            text("Reading."),
            tool("c1", output="A", time={"compacted": 5}),
            tool("c2", "error", error="no such file"),
            tool("c3", "running"),
            part("step-finish", tokens=TOKENS),
            part("patch", files=["a"]),
            part("step-start"),
            text("Done."),
            part("step-finish", tokens={**TOKENS, "cache": {"read": 100, "write": 0}}),
        ),
    )
    session = read_one(path)
    assert (session.id, session.format_name, session.model) == ("ses_1", "OpenCode session", "m1")
    assert shape(session) == [
        "user:text",
        "assistant:thinking,text,tool_use,tool_use,tool_use",
        "user:tool_result,tool_result,tool_result",
        "assistant:text",
    ]
    assert_calls_are_answered(session.messages)
    results = [(block["content"], block.get("is_error", False)) for block in blocks(session.messages[2])]
    assert results[:2] == [("A", False), ("no such file", True)]
    assert [(each.index, each.usage) for each in session.calls] == [
        (1, Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=30)),
        (3, Usage(input_tokens=110, output_tokens=9, cache_read_tokens=100)),
    ]
    assert session.skipped == (
        "no part of the conversation: patch 1",
        "1 call without a recorded result: a stand-in says so",
    )


def test_an_answer_of_one_step_counts_its_tokens_itself(tmp_path: Path) -> None:
    path = export(
        tmp_path / "e.json", message("m1", "user", text("go")), message("m2", "assistant", text("1"), tokens=TOKENS)
    )
    assert [(each.index, each.usage.input_tokens) for each in read_one(path).calls] == [(1, 100)]


def test_a_compaction_is_a_part_and_the_answer_after_it_its_summary(tmp_path: Path) -> None:
    path = export(
        tmp_path / "e.json",
        message("m1", "user", text("one")),
        message("m2", "assistant", text("1")),
        message("m3", "user", text("two")),
        message("m4", "assistant", text("2")),
        message("m5", "user", part("compaction", auto=True, tail_start_id="m3")),
        message("m6", "assistant", text("One was asked."), summary=True),
        message("m7", "assistant", text("3"), tokens=TOKENS),
    )
    session = read_one(path)
    assert session.compactions == (RecordedCompaction(index=4, trigger="auto", summary="One was asked."),)
    assert [(each.index, each.context_start) for each in session.calls] == [(4, 2)]
    assert shape(session) == ["user:text", "assistant:text", "user:text", "assistant:text", "assistant:text"]


def test_what_was_taken_back_is_left_out(tmp_path: Path) -> None:
    path = export(
        tmp_path / "e.json",
        message("m1", "user", text("one")),
        message("m2", "assistant", text("1")),
        message("m3", "user", text("two")),
        message("m4", "assistant", text("2")),
        revert={"messageID": "m3"},
        parentID="ses_0",
    )
    session = read_one(path)
    assert shape(session) == ["user:text", "assistant:text"]
    assert session.skipped == ("this is the session of a sub-agent", "messages 2, 3: taken back by the user")


def test_media_in_prompts_and_results_are_shown(tmp_path: Path) -> None:
    image = part("file", mime="image/png", url="data:image/png;base64,AAAA")
    path = export(
        tmp_path / "e.json",
        message("m1", "user", text("look"), image),
        message("m2", "assistant", tool("c1", output="see", attachments=[image])),
    )
    session = read_one(path)
    assert shape(session)[0] == "user:text,image"
    assert [block["type"] for block in blocks(session.messages[2])[0]["content"]] == ["text", "image"]


def test_messages_without_content_are_named(tmp_path: Path) -> None:
    path = export(
        tmp_path / "e.json",
        message("m1", "user"),
        message("m2", "assistant", text("1")),
        message("m3", "assistant"),
        message("m4", "narrator"),
    )
    assert read_one(path).skipped == (
        "message 0: a message without content",
        "message 2: an answer without content",
        "message 3: neither a user's message nor an answer",
    )


# -- the storage folder

TALK = (
    message("msg_1", "assistant", tool("c1", output="A"), text("Done."), sessionID="ses_1", time={"created": 20}),
    message("msg_2", "user", text("go"), sessionID="ses_1", time={"created": 10}),
)


def store_file(root: Path, name: str, value: object) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def store(root: Path, layout: str, messages: Sequence[Json] = TALK) -> Path:
    """Write a storage folder in one of its three layouts; return the session's file."""
    inner = "session/" if layout == "first" else ""
    for each in messages:
        message_id = each["info"]["id"]
        store_file(root, f"{inner}message/ses_1/{message_id}.json", each["info"])
        for place, one in enumerate(each["parts"]):
            folder = {"now": f"part/{message_id}", "first": f"session/part/ses_1/{message_id}", "flat": "part"}[layout]
            store_file(root, f"{folder}/prt_{message_id}_{place}.json", {**one, "messageID": message_id})
    return store_file(root, f"session/{'info' if layout == 'first' else 'project'}/ses_1.json", INFO)


@pytest.mark.parametrize("layout", ["now", "first", "flat"])
@pytest.mark.parametrize("given", ["file", "storage", "data"])
def test_a_stored_session_is_put_together(tmp_path: Path, layout: str, given: str) -> None:
    session_file = store(tmp_path / "storage", layout)
    path = {"file": session_file, "storage": tmp_path / "storage", "data": tmp_path}[given]
    session = read_one(path)
    assert session.id == "ses_1"
    assert shape(session) == ["user:text", "assistant:tool_use,text", "user:tool_result"]
    assert session.skipped == ()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    session_file = store(tmp_path, "now")
    (tmp_path / "message" / "ses_1" / "msg_0.json").write_text("{broken")
    (tmp_path / "part" / "msg_2" / "prt_x.json").write_text("[]")
    assert read_one(session_file).skipped == ("ses_1/msg_0.json: cannot be read", "msg_2/prt_x.json: cannot be read")


def test_all_stored_sessions_with_answers_are_read_and_those_without_left_out(tmp_path: Path) -> None:
    store(tmp_path, "now")
    store_file(tmp_path, "session/project/ses_0.json", {**INFO, "id": "ses_0"})
    store_file(tmp_path, "session/project/ses_2.json", ["odd"])
    session = read_one(tmp_path)
    assert session.id == "ses_1"
    assert session.skipped == ("2 sessions that cannot be read or in which no model answers",)


def test_a_storage_folder_in_which_no_model_answers_is_named(tmp_path: Path) -> None:
    for name in ("ses_0", "ses_1"):
        store_file(tmp_path, f"session/project/{name}.json", {**INFO, "id": name})
    with pytest.raises(ReplayError, match="no model has answered in any of its sessions"):
        list(read_sessions(tmp_path))
