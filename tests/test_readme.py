"""The README's program runs as it stands there, and its two command lines are what it says they are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from compaction_hooks import CompactionController

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(heading: str, language: str = "") -> list[str]:
    """The fenced blocks under a heading."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def test_the_program_compacts(capsys: pytest.CaptureFixture[str]) -> None:
    program = blocks("Use it", "python")[0]
    assert len(program.splitlines()) < 20
    exec(compile(program, "README.md", "exec"), {})
    said = re.fullmatch(r"(\d+) messages, (\d+) in the view, (\d+) compactions\n", capsys.readouterr().out)
    assert said is not None
    whole, shown, compactions = map(int, said.groups())
    assert shown < whole / 2
    assert compactions >= 2


async def test_the_line_with_the_model_call_inside_runs() -> None:
    line = blocks("Use it", "python")[1]

    async def send(view: list[object]) -> str:
        return f"an answer to {len(view)} message"

    names: dict[str, object] = {
        "controller": CompactionController(context_window=16_384),
        "messages": [{"role": "user", "content": "Port the parser."}],
        "send": send,
    }
    await eval(compile(line, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert names["answer"] == "an answer to 1 message"


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_each_of_the_two_headings_begins_with_one_command_line(heading: str) -> None:
    assert len(blocks(heading)[0].strip().splitlines()) == 1
