"""The public sessions are valid, small, what their README says, and what their program records."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import problems
from tests.benchmarks.recording.kit import SOURCE
from tests.cases import folded
from tests.data import PUBLIC, sessions

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.name.partition(".")[0] for path in PUBLIC.glob("*.jsonl.gz"))
MOST_BYTES = 1_000_000
NEED_HISTORY = {"refactoring", "research", "review"}
"""They are made of this project's files at an earlier commit."""


def one(name: str, folder: Path = PUBLIC) -> dict[str, Any]:
    (session,) = sessions(name, folder)
    return session


@folded("name", NAMES)
def test_a_session_is_valid_and_every_probe_has_its_evidence(name: str) -> None:
    session = one(name)
    assert session["license"] == "MIT"
    assert problems([piece for message in session["messages"] for piece in OpenAIChatFormat().read(message)]) == []
    for probe in session["probes"]:
        told = "".join(json.dumps(session["messages"][index], ensure_ascii=False) for index in probe["evidence"])
        answers = [probe["answer"]] if isinstance(probe["answer"], str) else probe["answer"]
        assert all(json.dumps(text.removeprefix("/project/"), ensure_ascii=False)[1:-1] in told for text in answers)


def test_the_readme_lists_every_session_with_its_size() -> None:
    text = (PUBLIC / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\.jsonl\.gz` \| .*? \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", text, re.MULTILINE)
    assert [name for name, *_ in rows] == NAMES
    for name, *figures in rows:
        messages = one(name)["messages"]
        pieces = (piece for message in messages for piece in OpenAIChatFormat().read(message))
        tokens = sum(map(CharacterEstimator().estimate_message_tokens, pieces))
        answers = sum(message["role"] == "assistant" for message in messages)
        assert [int(figure.replace(",", "")) for figure in figures] == [len(messages), answers, tokens]


def test_all_sessions_together_are_small() -> None:
    assert sum(path.stat().st_size for path in PUBLIC.iterdir()) < MOST_BYTES


@pytest.mark.full
@pytest.mark.parametrize("names", [sorted({*NAMES} - NEED_HISTORY), sorted(NEED_HISTORY)])
def test_recording_again_gives_the_same_sessions(names: list[str], tmp_path: Path) -> None:
    if NEED_HISTORY & {*names} and subprocess.run(["git", "cat-file", "-e", SOURCE], cwd=ROOT, check=False).returncode:
        pytest.skip("needs a clone with its history")
    command = [sys.executable, "-m", "tests.benchmarks.recording", *names, "--folder", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert [one(name, tmp_path) for name in names] == [one(name) for name in names]
