"""Which kind a file is, what is wrong with it, and every real file there is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from tests.data import DATA, needs_data
from tests.replay.samples import assert_calls_are_answered, blocks, read_one, shape, write

CHAT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello yourself"}]
RECORD = {"id": "r1", "harness": "test", "license": "MIT", "messages": CHAT}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", ": the file is empty; give a session file: JSON or JSON Lines", id="empty"),
        pytest.param(b" \n\n", ": the file is empty; give a session file", id="blank"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ": is a binary file or not UTF-8; give", id="binary"),
        pytest.param(json.dumps(RECORD).encode("utf-16"), ": is a binary file or not UTF-8; give", id="utf-16"),
        pytest.param(b"Dear diary,\n", ", line 1: not JSON: 'Dear diary,'; give a session file", id="prose"),
        pytest.param(b'\n"words"\n42\n', ", line 2: text instead of an object; give", id="lines-of-values"),
        pytest.param(b"42", ", line 1: a number instead of a session; give", id="a-number"),
        pytest.param(
            b'{"a": 1}\n{"b": 2}\n', ", line 1: not a session of a kind this command knows; OpenAI", id="other"
        ),
        pytest.param(b"[]", ", line 1: not a session of a kind this command knows; OpenAI", id="empty-list"),
        pytest.param(
            json.dumps(CHAT[:1]).encode(), ": no model has answered in it; give a session with", id="unanswered"
        ),
        pytest.param(b"\x1f\x8bnot really", ": is a damaged gzip file", id="damaged-gzip"),
        pytest.param(gzip.compress(json.dumps(RECORD).encode())[:-9], ": is a damaged gzip file", id="cut-gzip"),
        pytest.param(b"[" * 100_000, ", line 1: not JSON: '[[[", id="nested-too-deep"),
    ],
)
def test_a_file_without_a_session_is_named_with_line_and_fix(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)
    with pytest.raises(ReplayError) as caught:
        list(read_sessions(path))
    assert str(caught.value).startswith(f"{path}{problem}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="there is no such file; check the path") as caught:
        list(read_sessions(tmp_path / "nowhere.jsonl"))
    assert caught.value.path == tmp_path / "nowhere.jsonl"
    assert caught.value.line is None


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"is a folder; name the files in it, such as .*/\*\.jsonl"):
        list(read_sessions(tmp_path))


def test_a_gzipped_file_is_read_by_what_it_is_not_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(gzip.compress(json.dumps(RECORD).encode()))
    assert read_one(path).messages == tuple(CHAT)


def test_a_byte_order_mark_is_no_part_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(RECORD).encode())
    assert read_one(path).id == "r1"


def test_each_record_of_a_file_is_a_session(tmp_path: Path) -> None:
    path = write(tmp_path / "two.jsonl", RECORD, {**RECORD, "id": "r2"})
    assert [session.id for session in read_sessions(path)] == ["r1", "r2"]


def test_what_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mixed.jsonl", RECORD, 7, {"x": 1}, {"id": "mute", "messages": CHAT[:1]})
    assert read_one(path).skipped == (
        "line 2: a number instead of an object",
        "line 3: an object without messages",
        "1 sessions in which no model answers",
    )


def test_what_the_file_had_to_skip_is_noted_once(tmp_path: Path) -> None:
    _, second = read_sessions(write(tmp_path / "two.jsonl", RECORD, 7, {"x": 1}, {**RECORD, "id": "r2"}))
    assert second.skipped == ()


def test_two_objects_on_a_line_are_both_read(tmp_path: Path) -> None:
    path = write(tmp_path / "two.jsonl", json.dumps(RECORD) + json.dumps({**RECORD, "id": "r2"}))
    first, second = read_sessions(path)
    assert (first.id, second.id) == ("r1", "r2")
    assert first.skipped == ("line 1: 2 objects on one line, all read",)


@pytest.mark.parametrize("broken", ['{"id": "broken', "not a session"])
def test_a_broken_line_among_records_is_an_error_after_all_others_were_read(tmp_path: Path, broken: str) -> None:
    """Each line is a session of its own: one that is lost must not go unnoticed."""
    sessions = read_sessions(write(tmp_path / "three.jsonl", RECORD, broken, {**RECORD, "id": "r3"}))
    assert [next(sessions).id, next(sessions).id] == ["r1", "r3"]
    with pytest.raises(ReplayError, match=r"three\.jsonl, line 2: not JSON: .*; mend the line or remove it"):
        next(sessions)


def test_a_last_line_that_was_cut_off_costs_that_line_only(tmp_path: Path) -> None:
    """It may end inside a character."""
    path = tmp_path / "cut.jsonl"
    path.write_bytes(
        json.dumps(RECORD).encode()
        + b"\n"
        + '{"id": "r2", "messages": [{"role": "user", "content": "\u00e9'.encode()[:-1]
    )
    sessions = read_sessions(path)
    assert next(sessions).id == "r1"
    with pytest.raises(ReplayError, match="line 2: cut off"):
        next(sessions)


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    said = "one\u2028two"
    path = tmp_path / "separator.jsonl"
    record = {**RECORD, "messages": [{"role": "user", "content": said}, CHAT[1]]}
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n" + json.dumps(RECORD) + "\n", encoding="utf-8")
    first, _ = read_sessions(path)
    assert first.messages[0]["content"] == said


def test_lines_of_messages_without_ids_are_a_session(tmp_path: Path) -> None:
    path = write(
        tmp_path / "early.jsonl",
        {"role": "user", "content": "translate", "model": "m1"},
        {"type": "tool_call", "function": {"name": "translate"}, "arguments": '{"text": "hello"}'},
        {"type": "tool_call", "function": {"name": "git"}, "arguments": "status"},
        {"type": "tool_result", "name": "translate", "result": "hola"},
        {"role": "assistant", "content": "hola"},
        {"type": "error", "text": "simulated"},
    )
    session = read_one(path)
    assert (session.format_name, session.id, session.model) == ("message lines", "early", "m1")
    assert shape(session) == [
        "user",
        "assistant:tool_use",
        "user:tool_result",
        "assistant:tool_use",
        "user:tool_result",
        "assistant:text",
    ]
    inputs = [
        block["input"] for message in session.messages for block in blocks(message) if block["type"] == "tool_use"
    ]
    assert inputs == [{"text": "hello"}, {"arguments": "status"}]
    assert session.skipped == (
        "line 6: error is no message",
        "1 call without a recorded result: a stand-in says so",
    )


NATIVE = DATA / "native"
REAL_FILES = sorted(
    path
    for pattern in (
        "claude_code/*.jsonl",
        "pi/*.jsonl",
        "agent_sessions_fixtures/session_*.jsonl",
        "agent_sessions_fixtures/stage0/agents/claude/**/*.jsonl",
        "agent_sessions_fixtures/stage0/agents/pi/*.jsonl",
    )
    for path in NATIVE.glob(pattern)
)


@needs_data
def test_real_files_are_there() -> None:
    assert len(REAL_FILES) >= 20


@pytest.mark.parametrize("path", [pytest.param(path, id=path.relative_to(NATIVE).as_posix()) for path in REAL_FILES])
def test_every_real_file_is_read_as_a_valid_conversation(path: Path) -> None:
    for session in read_sessions(path):
        assert_calls_are_answered(session.messages)
        for message in session.messages:
            session.format.read(message)
        for recorded in session.calls:
            assert session.messages[recorded.index]["role"] == "assistant"
            assert 0 <= recorded.context_start <= recorded.index
        assert all(0 <= compaction.index <= len(session.messages) for compaction in session.compactions)


def _normalised(session_id: str) -> Iterator[dict[str, Any]]:
    for pattern in ("entire_claude_code", "kimi_claude_code_zh", "pi_sessions"):
        with gzip.open(DATA / "sessions" / f"{pattern}.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield from (record for record in map(json.loads, lines) if session_id in record["id"])


@needs_data
@pytest.mark.parametrize(
    ("file", "session_id"),
    [
        pytest.param("claude_code/compacted-53ea1606-cf60-417b-928a-068324ecc7b3.jsonl", "53ea1606", id="compacted"),
        pytest.param("claude_code/parallel-07d86da7-2e39-4276-a0d5-7b46a85b8750.jsonl", "07d86da7", id="parallel"),
        pytest.param("claude_code/small-79eb9f8a-232c-4a72-a26b-4b4520ef2152.jsonl", "79eb9f8a", id="small"),
        pytest.param("claude_code/zh-f14bdf44-1816-4feb-a233-4b501e2e69c6.jsonl", "f14bdf44", id="chinese"),
        pytest.param("pi/session-20251217-two-objects-on-a-line.jsonl", "20251217", id="pi"),
    ],
)
def test_calls_and_usage_agree_with_the_normalised_recording(file: str, session_id: str) -> None:
    """Somebody else's conversion of the same files is the reference."""
    session = read_one(NATIVE / file)
    (record,) = _normalised(session_id)
    found = [block["id"] for message in session.messages for block in blocks(message) if block["type"] == "tool_use"]
    assert found == [call["id"] for message in record["messages"] for call in message.get("tool_calls", ())]
    assert [call.usage.input_tokens for call in session.calls] == [call["prompt_tokens"] for call in record["usage"]]


@needs_data
@pytest.mark.parametrize("path", sorted((DATA / "sessions").glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_every_normalised_recording_is_read_whole(path: Path) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    read = list(read_sessions(path))
    assert [session.id for session in read] == [record["id"] for record in records]
    for session, record in zip(read, records, strict=True):
        assert list(session.messages) == record["messages"]
        assert session.format.name == "openai_chat"
        assert len(session.calls) == sum(call["prompt_tokens"] > 0 for call in record.get("usage", ()))
        assert len(session.probes) == len(record.get("probes", ()))
        assert session.skipped == ()
