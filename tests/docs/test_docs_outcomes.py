"""docs/outcomes.md lists every outcome, reason, skip reason, event, state and error of the code, and no other."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from compaction_hooks import CompactionOutcome, CompactionReason, SessionState, errors, events

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
