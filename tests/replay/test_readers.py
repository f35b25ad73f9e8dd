"""The kind of a file, its defects, and all real files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.readers.notes import Skipped
from compaction_hooks.replay.readers.salvage import Salvaged, salvage
from tests.cases import folded, sampled
from tests.data import DATA, needs_data
from tests.replay.samples import read_one

CHAT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello yourself"}]
RECORD = {"id": "r1", "harness": "test", "license": "MIT", "messages": CHAT}


@folded(
    "content, problem",
    {
        "empty": (b"", ": the file is empty; give a session file: JSON or JSON Lines"),
        "blank": (b" \n\n", ": the file is empty; give a session file"),
        "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ": is a binary file or not UTF-8; give"),
        "utf 16": (json.dumps(RECORD).encode("utf-16"), ": is a binary file or not UTF-8; give"),
        "prose": (b"Dear diary,\n", ", line 1: not JSON; give a session file"),
        "lines of values": (b'\n"words"\n42\n', ", line 2: text instead of an object; give"),
        "a number": (b"42", ", line 1: a number instead of a session; give"),
        "other": (
            b'{"a": 1}\n{"b": 2}\n',
            ", line 1: not a session of a kind this command knows; give a session of one of these kinds: Claude Code, Codex, "
            "Copilot CLI, Gemini CLI, LangChain, message lines, mini-swe-agent and SWE-agent, OpenAI or Anthropic messages, "
            "OpenCode, OpenHands, pi, pydantic-ai, Qwen Code",
        ),
        "empty list": (b"[]", ", line 1: not a session of a kind this command knows; give"),
        "unanswered": (
            json.dumps(CHAT[:1]).encode(),
            ": no model has answered in it (OpenAI or Anthropic messages); give a session with",
        ),
        "compressed with zstd": (b"\x28\xb5\x2f\xfd....", ": is compressed with zstd; decompress it first: zstd -d "),
        "damaged gzip": (b"\x1f\x8bnot really", ": is a damaged gzip file"),
        "cut gzip": (gzip.compress(json.dumps(RECORD).encode())[:12], ": is a damaged gzip file"),
        "nested too deep": (b"[" * 100_000, ", line 1: not JSON; give"),
    },
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


CUT_OFF = "the gzip file is cut off: everything before the cut is read"


@folded(
    "content, skipped",
    {
        "gzip, recognized by its content": (gzip.compress(json.dumps(RECORD).encode()), ()),
        "gzip without its check sum": (gzip.compress(json.dumps(RECORD).encode())[:-8], (CUT_OFF,)),
        "a byte order mark": (b"\xef\xbb\xbf" + json.dumps(RECORD).encode(), ()),
    },
)
def test_a_session_is_read_whole_from(tmp_path: Path, content: bytes, skipped: tuple[str, ...]) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(content)
    session = read_one(path)
    assert (session.id, session.messages, session.skipped) == ("r1", tuple(CHAT), skipped)


def test_a_gzipped_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    """Two gzip members, as in appended logs; the second lacks its end."""
    path = tmp_path / "session.jsonl.gz"
    said = [{"role": role, "content": f"{role} says so"} for role in ("user", "assistant", "user", "assistant")]
    lines = [{"type": "session", "cwd": "/"}, *({"type": "message", "message": message} for message in said)]
    texts = ["".join(json.dumps(line) + "\n" for line in part).encode() for part in (lines[:3], lines[3:])]
    first, second = (gzip.compress(text, mtime=0) for text in texts)
    path.write_bytes(first + second[: len(second) // 2])
    session = read_one(path)
    assert [message["role"] for message in session.messages[:2]] == ["user", "assistant"]
    assert session.skipped[0] == CUT_OFF


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


def test_documents_one_after_the_other_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(RECORD, indent=2) + "\n" + json.dumps({**RECORD, "id": "r2"}, indent=2) + "\nthe end")
    first, second = read_sessions(path)
    assert (first.id, second.id) == ("r1", "r2")
    assert first.skipped == ("line 31: not JSON: 'the end'",)


@needs_data
@pytest.mark.parametrize("path", sampled(sorted((DATA / "sessions").glob("*.jsonl.gz")), 4), ids=lambda path: path.name)
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


@folded(
    "kind, added, notes",
    {
        "a reason is said once, with its places": (
            "line",
            [("no call", 4), ("cut off", 9), ("no call", 7, 4)],
            ("lines 4, 7: no call", "line 9: cut off"),
        ),
        "many places are counted": ("event", [("odd", *range(8))], ("events 0, 1, 2, 3, 4 and 3 more: odd",)),
        "without a place": ("line", [("a sub-agent's session",)] * 2, ("a sub-agent's session",)),
        "nothing": ("line", [], ()),
    },
)
def test_what_was_skipped_is_noted(kind: str, added: list[Any], notes: tuple[str, ...]) -> None:
    skipped = Skipped(kind)
    for reason, *places in added:
        skipped.add(reason, *places)
    assert skipped.notes() == notes


def test_kinds_are_counted_in_one_note_the_most_frequent_first() -> None:
    skipped = Skipped()
    for kind in ("info", "error", "error"):
        skipped.add_kind(kind)
    skipped.add("odd", 1)
    assert skipped.notes() == ("line 1: odd", "no part of the conversation: error 2, info 1")


@folded(
    "text, value",
    {
        "member": ('{"a": 1, "b": 2, "c": ', {"a": 1, "b": 2}),
        "text": ('{"a": 1, "b": "cut o', {"a": 1}),
        "innermost": ('{"a": {"b": 1, "c": [1, 2, 3', {"a": {"b": 1, "c": [1, 2]}}),
        "object of a list": ('[{"a": 1}, {"b": 2, "c": [3, ', [{"a": 1}]),
        "outermost object of a list": ('{"m": [{"a": [{"b": 1}, {"c"', {"m": []}),
        "list of a list": ('[[{"a": 1}], [{"b": 2}, {"c"', [[{"a": 1}], [{"b": 2}]]),
        "marks in a text": ('{"a": "} ] \\" , {", "b": [1, 2}', {"a": '} ] " , {', "b": [1]}),
        "mistake inside a text": ('{"a": 1, "b": "bad \\q", "c": 3}', {"a": 1}),
        "comma": ('{"a": 1 "b": 2}', {}),
        "opened": ("[", []),
    },
)
def test_values_before_the_first_mistake_are_kept(text: str, value: object) -> None:
    found = salvage(text)
    assert found is not None
    assert (found.value, found.is_whole) == (value, False)
    assert 0 < found.end <= len(text)


def test_a_value_without_a_mistake_is_whole() -> None:
    assert salvage('ab {"a": [1]} more', 3) == Salvaged({"a": [1]}, True, 13)


@folded(
    "text",
    {
        "prose": "Dear diary",
        "nothing": "",
        "nested too deeply": "[" * 100_000,
        "number too long": f'{{"a": {"9" * 5_000}',
    },
)
def test_a_text_without_object_or_list_gives_nothing(text: str) -> None:
    assert salvage(text) is None


def test_every_prefix_of_a_document_gives_a_part_of_it() -> None:
    document = json.dumps({"a": [{"b": "x"}, {"c": [1, {"d": None}]}], "e": "end"}, indent=1)
    for end in range(1, len(document)):
        found = salvage(document[:end])
        assert found is not None
        assert isinstance(found.value, dict)
        assert found.value.get("a", []) in ([], [{"b": "x"}], [{"b": "x"}, {"c": [1, {"d": None}]}])
