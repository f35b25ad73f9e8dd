"""What single pages say: the outcomes, the table of reasoning and the tutorial."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from compaction_hooks import CompactionOutcome, CompactionReason, SessionState, errors, events
from compaction_hooks.validity import FAMILIES, REFUSALS
from tests.docs.test_docs import programs, text

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "outcomes.md").read_text(encoding="utf-8")
ENGINE = ROOT / "compaction_hooks" / "engine"


def names(header: str) -> list[str]:
    """Return the words in backticks that begin the rows of the table with this first header."""
    table = TEXT.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(.*?)`", table, re.MULTILINE)


def texts(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def skip_calls(path: Path) -> set[str]:
    """Return the reasons that a module gives where it skips a compaction or begins a cooldown."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    skips = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("_skip", "begin")]
    values = [value for call in skips for value in call.args if isinstance(value, ast.Constant)]
    return {value.value for value in values if isinstance(value.value, str)}


def test_every_reason_and_outcome_is_listed() -> None:
    assert names("`CompactionReason`") == [*CompactionReason]
    assert names("`CompactionOutcome`") == [*CompactionOutcome]


def test_every_skip_reason_is_listed_and_no_other() -> None:
    listed = set(names("`why`"))
    check = texts(ROOT / "compaction_hooks" / "strategies" / "candidate.py")
    modules = [*ENGINE.glob("*.py")]
    assert listed <= check | {text for module in modules for text in texts(module)}
    given = {reason for module in modules for reason in skip_calls(module)}
    assert len(given) > 5
    assert given | {"too large", "no gain", "invalid: ", "undone", "aborted", "left to the server ("} == listed


def test_every_event_is_listed() -> None:
    assert names("event") == [event.__name__ for event in get_args(events.CompactionEvent)]


def test_every_attribute_of_the_state_is_listed() -> None:
    assert names("attribute") == [field.name for field in fields(SessionState)]


def test_every_error_is_listed() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    raised = {each.__name__ for each in classes if issubclass(each, errors.CompactionError)}
    assert {*names("error")} == raised - {"CompactionError"}


def test_every_part_that_cannot_shrink_is_listed() -> None:
    documented = (errors.ContextOverflowError.__doc__ or "").split("part:", 1)[1]
    assert set(names("`part`")) == set(re.findall(r'"([a-z ]+)"', documented))


PAGE = (Path(__file__).parents[2] / "docs" / "reasoning.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def test_every_family_of_models_has_its_row() -> None:
    found = [[*row[:-1], *re.findall(r"\((https://.*)\)", row[-1])] for row in ROWS]
    for family in FAMILIES:
        assert [family.name, family.stale, family.needed, family.unit, family.source] in found


def test_every_refusal_has_its_row_and_no_other() -> None:
    rows = [(re.sub("'", "", words).lower(), source) for words, _, source in (row for row in ROWS if len(row) == 3)][1:]
    assert len(rows) == len(REFUSALS)
    for refusal, (words, source) in zip(REFUSALS, rows, strict=True):
        assert re.search(refusal.words, words), words
        assert refusal.source in source


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
