"""`compaction-hooks report` and `compaction-hooks chart`: options, files and errors; tests/replay/test_page.py reads the page."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")
pytest.importorskip("jinja2", reason="needs the extra report")

from compaction_hooks import CompactionSettings
from compaction_hooks.command import app
from compaction_hooks.replay import read_sessions, replay
from compaction_hooks.replay.page import chart_of, write_chart
from tests.replay.samples import forgetful_conversation, long_conversation, short_conversation, write_sessions

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "session.jsonl"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_sessions(tmp_path / "sessions.jsonl", forgetful_conversation(), long_conversation())


def run(*arguments: object) -> int:
    return app.run(list(map(str, arguments)))


def conversations(page: Path) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" id="conversation-\d+">(.*?)</script>', page.read_text("utf-8"))
    return [json.loads(text) for text in found]


def test_all_sessions_of_all_files_are_in_one_page_with_the_settings_given(
    file: Path, tmp_path: Path, capsys: Capture
) -> None:
    page, other = tmp_path / "report.html", write_sessions(tmp_path / "other.jsonl", short_conversation())
    assert run("report", file, other, "-o", page, "--window", "8k", "--keep", "1k", "--reserve", "500") == 0
    assert capsys.readouterr().out == (
        f"{page}: 3 sessions. This file holds a conversation with its tool results and names. "
        "Give it only to people who may read it all.\n"
    )
    settings = CompactionSettings(keep_recent_tokens=1_000, reserve_tokens=500)
    done = [
        replay(session, window=8_000, settings=settings) for path in (file, other) for session in read_sessions(path)
    ]
    assert [found["sent"] for found in conversations(page)] == [
        [call.tokens_sent for call in each.calls] for each in done
    ]


def test_without_text_the_command_says_so(file: Path, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert run("report", file, "-o", page, "--window", "8k", "--no-text") == 0
    assert "2 sessions. This file holds numbers" in capsys.readouterr().out
    texts = [part["text"] for found in conversations(page) for each in found["messages"] for part in each["parts"]]
    assert {*texts} == {""}


def test_bad_files_are_named_and_the_others_reported(file: Path, tmp_path: Path, capsys: Capture) -> None:
    page, missing = tmp_path / "report.html", tmp_path / "missing.jsonl"
    assert run("report", missing, file, "-o", page, "--window", "8k") == 2
    assert capsys.readouterr().err.startswith(f"error: {missing}: ")
    assert len(conversations(page)) == 2


def test_no_page_is_written_if_there_is_no_session(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert run("report", tmp_path / "missing.jsonl", "-o", page) == 2
    assert not page.exists()


def test_a_page_that_cannot_be_written_is_an_error_of_the_output(file: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run("report", file, "-o", tmp_path / "nowhere" / "report.html", "--window", "8k") == 1
    assert capsys.readouterr().err == "error: the output cannot be written (No such file or directory)\n"


def test_without_jinja_the_command_names_the_extra_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run("report", tmp_path / "missing.jsonl") == 2
    assert capsys.readouterr().err == (
        "error: compaction-hooks report needs Jinja2: pip install 'compaction-hooks[cli,report]'\n"
    )


def test_the_chart_of_the_documentation_is_drawn_by_one_command_without_jinja(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    drawn = tmp_path / "chart.svg"
    assert run("chart", EXAMPLE, "-o", drawn, "--window", "16k") == 0
    (session,) = read_sessions(EXAMPLE)
    assert drawn.read_text(encoding="utf-8") == write_chart(chart_of(replay(session, window=16_000)))
    assert drawn.read_bytes() == (ROOT / "docs" / "chart.svg").read_bytes(), (
        "draw it anew, by the command of docs/report.md"
    )


def test_a_chart_is_of_one_session(file: Path, tmp_path: Path, capsys: Capture) -> None:
    drawn = tmp_path / "chart.svg"
    assert run("chart", file, "-o", drawn, "--window", "8k") == 2
    assert f"{file} has 2 sessions; give a file with one" in capsys.readouterr().err
    assert not drawn.exists()


def test_a_system_prompt_larger_than_the_window_is_named(tmp_path: Path, capsys: Capture) -> None:
    large = write_sessions(tmp_path / "s.jsonl", short_conversation(), system="word " * 20_000)
    assert run("report", large, "-o", tmp_path / "report.html", "--window", "8k") == 2
    assert "use a larger --window" in capsys.readouterr().err
