"""The README's program runs as it stands there, and its two command lines are what it says they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(heading: str, language: str = "") -> list[str]:
    """The fenced blocks under a heading."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def test_the_program_compacts(capsys: pytest.CaptureFixture[str]) -> None:
    program = blocks("Use it", "python")[0]
    assert len(program.splitlines()) < 20
    exec(compile(program, "README.md", "exec"), {})
    last = capsys.readouterr().out.splitlines()[-1]
    said = re.fullmatch(r"(\d+) messages, (\d+) in the view, (\d+) compactions", last)
    assert said is not None
    whole, shown, compactions = map(int, said.groups())
    assert shown < whole / 2
    assert compactions >= 2


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_each_of_the_two_headings_begins_with_one_command_line(heading: str) -> None:
    assert len(blocks(heading)[0].strip().splitlines()) == 1
