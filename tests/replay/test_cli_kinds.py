"""The command on sessions of every kind: all are replayed, with notes on skipped parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")

from compaction_hooks.replay import cli
from tests.replay.kinds import KINDS, Kind

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "130")


def run(*arguments: object) -> int:
    return cli.run(["replay", *map(str, arguments)])


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    """Return a rollout of Codex with a broken line and two results without tool calls."""
    kind = next(kind for kind in KINDS if kind.name == "codex")
    lines = kind.text(kind.records(3)).splitlines()
    orphan = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c9", "output": "?"}}
    lines[5:5] = [json.dumps(orphan), '{"type": "response_it', json.dumps(orphan)]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_what_was_skipped_in_another_agents_session_is_said_with_its_lines(rollout: Path, capsys: Capture) -> None:
    notes = ['line 7: not JSON: \'{"type": "response_it\'', "lines 6, 8: a result without its call"]
    assert run(rollout) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "s (Codex rollout, 12 messages)" in said
    assert f"Notes {'; '.join(notes)}" in said
    assert run(rollout, "--json") == 0
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (session["format"], session["messages"], session["notes"]) == ("Codex rollout", 12, notes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_session_of_every_kind_is_compacted_as_any_other(kind: Kind, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "session"
    path.write_text(kind.text(kind.records(40)))
    assert run(path, "--window", "2k", "--json") == 0
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert session["compactions"]
    assert session["unfit"] == []
    assert all(call["tokens_sent"] <= 2_000 for call in session["calls"])


def test_a_folder_that_holds_a_session_is_replayed(tmp_path: Path, capsys: Capture) -> None:
    kind = next(kind for kind in KINDS if kind.name == "openhands")
    (tmp_path / "events").mkdir()
    for number, record in enumerate(kind.records(2)):
        (tmp_path / "events" / f"{number}.json").write_text(json.dumps(record.value))
    assert run(tmp_path) == 0
    assert "OpenHands events" in capsys.readouterr().out
