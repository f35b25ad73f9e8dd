"""docs/versions.md: the numbers that it names are those of the code."""

import re
import tomllib

import pytest

from compaction_hooks.events import CompactionFinished
from compaction_hooks.view.record import RECORD_VERSION
from tests.docs.test_docs import ROOT, text

PAGE = text("docs/versions.md")


def now(name: str) -> int:
    """Return the number that the page gives for a version."""
    (found,) = re.findall(rf"{re.escape(name)}[^.]*?, now (\d+)", PAGE)
    return int(found)


def test_the_versions_of_formats() -> None:
    pytest.importorskip("typer")
    from compaction_hooks.command.as_json import VERSION

    assert now("A record has `version`") == RECORD_VERSION
    assert now("`event.version`") == CompactionFinished.version
    assert now("`replay --json` prints") == VERSION


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tested = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"{tested[0]} to {tested[-1]} are tested" in PAGE
    assert project["requires-python"] == f">={tested[0]}"
