"""docs/tutorial.md: its programs, one after the other, print the output that the page shows."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import programs, text


def test_the_tutorial_runs_as_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec("\n".join(programs("docs/tutorial.md")), shown)
    outputs = re.findall(r"^```$\n\n```\n(.*?)^```$", text("docs/tutorial.md"), re.DOTALL | re.MULTILINE)
    assert len(outputs) == 4
    assert capsys.readouterr().out == "".join(outputs) + "True\n"
    assert shown["request"] in shown["view"]
