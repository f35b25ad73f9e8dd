"""docs/tutorial.md: its programs, one after the other, do what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import programs


def test_the_tutorial_runs_as_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    parts = programs("docs/tutorial.md")
    exec("\n".join(parts[:3]), shown)
    assert shown["request"] in shown["view"]
    assert len(shown["view"]) < len(shown["messages"]) == 121
    exec(parts[3], shown)
    exec(parts[4], shown)
    assert shown["result"].outcome == "compacted"
    assert {"role": "user", "content": "The release is on Friday."} in shown["result"].messages
    exec(parts[5], shown)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("call ")
    assert lines[-1] == "True"
