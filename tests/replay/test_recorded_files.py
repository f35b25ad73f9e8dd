"""Session files of every agent, as data in tests/fixtures/replay: the file, and the sessions that are read from it.

A case has a `name`, the name of its `file`, and its content: `lines`, a JSON `document`, or `text`. `sessions` are all that
are read, whole but for fields with their default; `error` is the text of the error after them.
"""

import json
from collections.abc import Mapping
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


def test_there_are_cases_of_every_reader() -> None:
    assert len(CASES) > 150
