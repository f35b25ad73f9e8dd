"""Session files of every agent, as data in tests/fixtures/replay: the file, and the sessions that are read from it.

A case has a `name`, the name of its `file`, and its content: `lines`, a JSON `document`, or `text`. `sessions` are all that
are read, whole but for fields with their default; `error` is the text of the error after them.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from compaction_hooks.replay import RecordedSession
from tests.cases import folded
from tests.replay.samples import assert_calls_of_sessions_are_answered, read_all

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "replay"
CASES = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
}


def content(case: Mapping[str, Any]) -> str:
    """Return the text of a file: as it is, of a JSON document, or of lines, which are objects or texts."""
    if "document" in case:
        return json.dumps(case["document"], indent=1)
    lines = (line if isinstance(line, str) else json.dumps(line) for line in case.get("lines", ()))
    return str(case.get("text", "")) or "".join(f"{line}\n" for line in lines)


def plain(value: object) -> Any:
    """Return a value as JSON, without the fields of dataclasses that have their default."""
    if is_dataclass(value):
        given = {field.name: (field.default, getattr(value, field.name)) for field in fields(value)}
        return {name: plain(found) for name, (default, found) in given.items() if found != default}
    if isinstance(value, Mapping):
        return {name: plain(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [plain(found) for found in value]
    return value


def as_json(session: RecordedSession) -> Any:
    return {**plain(session), "format": session.format.name}


@folded("case", CASES)
def test_a_file_is_read_as_its_sessions(case: Mapping[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case["file"]
    path.write_text(content(case), encoding="utf-8")
    sessions, error = read_all(path)
    assert [as_json(session) for session in sessions] == case["sessions"]
    assert str(error or "").replace(f"{tmp_path}/", "") == case.get("error", "")
    assert_calls_of_sessions_are_answered(sessions)


@folded(
    "name, place",
    {
        f"{name}, {'.'.join(map(str, place))}": (name, place)
        for name, *place in (
            (
                "claude_code: blocks of one answer come together with all results behind them",
                1,
                "message",
                "content",
                0,
            ),
            ("codex: items of a log become whole messages", 3, "payload", "content", 0),
            ("copilot: events become whole messages", 5, "data", "toolRequests", 0),
            ("gemini: a checkpoint is the apis own history: list", 0, "parts"),
            ("gemini: an answer holds its calls and their results", "messages", 2, "toolCalls", 0),
            ("gemini: the path to the last line is the conversation", 0, "message", "parts"),
            ("langchain: lists on lines are sessions of their own", 0, "messages", 2, "data", "tool_calls", 0),
            ("langchain: lists on lines are sessions of their own", 1, "messages", 0),
            ("mini_swe_agent: messages of the responses api are read", "messages", 0, "content", 0),
            ("mini_swe_agent: messages of the responses api are read", "messages", 1, "output", 0),
            ("opencode: each step of an answer is a call of the model", "messages", 0, "parts", 0),
            ("openhands: a logged completion is a request with its answer", "messages", 0),
            ("openhands: a logged completion is a request with its answer", "response", "choices", 0),
            ("openhands: events of the sdk are read", 1, "llm_message", "content"),
            ("openhands: one response is one answer however many actions it led to", 3, "action"),
            (
                "openhands: one response is one answer however many actions it led to",
                *(3, "tool_call_metadata", "model_response", "choices", 0),
            ),
            ("pi: a list without a version is read in its order", 1, "message"),
            ("pi: a list without a version is read in its order", 1, "message", "content"),
            ("pydantic_ai: requests and responses become messages", 0, "parts", 0),
        )
    },
)
def test_null_in_a_file_could_not_be_read(name: str, place: Sequence[str | int], tmp_path: Path) -> None:
    case = deepcopy(CASES[name])
    path = tmp_path / case["file"]
    path.write_text(content(case), encoding="utf-8")
    assert not any(session.unread for session in read_all(path)[0])
    inner = case.get("document") or case["lines"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = None
    path.write_text(content(case), encoding="utf-8")
    assert any(session.unread for session in read_all(path)[0])


def test_there_are_cases_of_every_reader() -> None:
    assert len(CASES) > 150
