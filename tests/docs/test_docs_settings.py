"""docs/settings.md and its page of constants name every setting, argument, option and number, each with its value."""

import ast
import importlib
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CallOptions, CompactionController, CompactionSettings, ConfigurationError
from compaction_hooks.tokens import budget
from compaction_hooks.triggers import SnapshotFigures
from tests.benchmarks.profiles import profiles
from tests.conversations import steps, user

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
TEXT = PAGE.read_text(encoding="utf-8")
POLICY_PAGE = PAGE.with_name("write-a-policy.md")
CHOICE_PAGE = PAGE.with_name("choosing-settings.md")
CHOICE_FIGURES = PAGE.with_name("figures") / "choosing-settings.md"
CONSTANTS_PAGE = PAGE.with_name("figures") / "settings.md"


def rows(heading: str, first: str, page: Path = PAGE) -> list[list[str]]:
    """The cells of the table under a heading whose first column is called this."""
    section = page.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = re.search(rf"^\| {first} \|.*\n\|[-:|]+\n((?:\|.*\n?)+)", section, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]


def code(cell: str) -> str:
    return cell.removeprefix("`").removesuffix("`")


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_every_field_is_listed_with_its_default() -> None:
    table = [(code(name), ast.literal_eval(code(default))) for name, default, *_ in rows("All settings", "field")]
    defaults = CompactionSettings()
    assert table == [(field.name, getattr(defaults, field.name)) for field in fields(CompactionSettings)]


def test_every_cell_is_filled() -> None:
    assert {len(row) for row in rows("All settings", "field")} == {3}
    assert all(cell for row in rows("All settings", "field") for cell in row)


def test_every_argument_of_the_controller_is_listed_with_its_default() -> None:
    table = [(code(name), ast.literal_eval(code(default))) for name, default, *_ in rows("The controller", "argument")]
    parameters = [*inspect.signature(CompactionController.__init__).parameters.values()][1:]
    assert table == [(parameter.name, parameter.default) for parameter in parameters]


def test_every_option_of_a_call_is_listed() -> None:
    assert [code(name) for name, _ in rows("One call", "option")] == [*CallOptions.__annotations__]


def test_every_constant_is_listed_with_its_value() -> None:
    """Those that are the default of a field are listed with the field."""
    constants = {name: value for name, value in vars(budget).items() if name.isupper() and not name.startswith("_")}
    of_fields = {"IDENTIFIER_TOKENS", "RESERVE_TOKENS", "SUMMARY_TOKENS", "SPLIT_TURN_MIN_PREFIX"}
    table = {code(name): float(value) for name, _, value in rows("Constants", "constant", CONSTANTS_PAGE)}
    assert table == {name: value for name, value in constants.items() if name not in of_fields}


def test_the_time_limits_are_those_of_the_code() -> None:
    text = CONSTANTS_PAGE.read_text(encoding="utf-8").split("Time limits:", 1)[1]
    limits = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| .* \| (\d+) \|$", text, re.MULTILINE)
    assert len(limits) == 4
    for name, module, seconds in limits:
        assert getattr(importlib.import_module(f"compaction_hooks.{module}"), name) == int(seconds)


def test_so_many_conversations_are_kept() -> None:
    said = re.search(r"A controller keeps the ([\d,]+) conversations", TEXT)
    assert said is not None
    assert number(said[1]) == importlib.import_module("compaction_hooks.session.controller").MAX_SESSIONS


def test_the_budgets_are_the_output_of_the_program() -> None:
    for row in rows("For one window", "window"):
        window, *amounts = map(number, row)
        budget = CompactionSettings().budget(window)
        assert amounts == [budget.trigger, budget.target, budget.keep, budget.summary]


def run_programs(page: Path) -> dict[str, Any]:
    """Run the programs of a page, one after the other, and return their names."""
    shown: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)), shown)
    return shown


def test_the_programs_of_the_page_run_as_described() -> None:
    shown = run_programs(PAGE)
    controller: CompactionController[Any] = shown["controller"]
    found = [controller.settings_for(model) for model in ("gpt-5.4-mini", "openai/gpt-5.2", "other")]
    assert found == [*shown["by_model"].values()]
    assert [len(shown[name].effective_strategies) for name in ("clear_only", "never_clear", "no_model")] == [1, 2, 3]


def test_the_profiles_of_the_page_are_those_that_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_programs(CHOICE_PAGE)
    measured = profiles()
    assert {name: vars(shown[name]) for name in measured} == {name: vars(each) for name, each in measured.items()}
    run_programs(CHOICE_FIGURES)
    table = [
        [cell.replace(",", "") for cell in row]
        for row in rows("Calls until a compaction is paid back", "from", CHOICE_FIGURES)
    ]
    assert table == [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_trigger_and_a_strategy_of_ones_own_work_as_shown() -> None:
    shown = run_programs(POLICY_PAGE)
    recorded = [user("Log in."), *steps(40, 3_000, name="screenshot"), *steps(2, 300, first=40)]
    view = shown["controller"].transform_context_sync(recorded)
    assert [message is kept for message, kept in zip(view[-6:], recorded[-6:], strict=True)] == [True] * 6
    assert sum("Old tool result cleared" in message["content"] for message in view) == 39


def test_the_window_is_found_as_the_page_says() -> None:
    messages = [user("Hello.")]
    own: CompactionController[Any] = CompactionController(model="gpt-5")
    own.transform_context_sync(messages)
    assert f"is {own.state().context_window:,}, the limit of its" in TEXT.replace("\n", " ")
    given: CompactionController[Any] = CompactionController(model="gpt-5", context_window=50_000)
    for model, window in ((None, 50_000), ("my-llm", 20_000), ("gpt-5", 50_000)):
        given.transform_context_sync(messages, model=model, context_window=20_000)
        assert given.state().context_window == window
    ratio = CompactionSettings(trigger_ratio=0.8)
    with pytest.raises(ConfigurationError, match="trigger_ratio"):
        CompactionController(settings=ratio).transform_context_sync(messages)
    with pytest.raises(ConfigurationError, match="trigger_ratio"):
        CompactionController(model="my-llm", settings=ratio)


def test_every_figure_of_a_snapshot_is_listed() -> None:
    figures = {name for name in vars(SnapshotFigures) if not name.startswith("_")}
    assert {code(name) for name, _ in rows("A trigger", "figure of the snapshot", POLICY_PAGE)} == figures


def test_every_strategy_is_listed_with_its_parameters() -> None:
    table = {
        code(name): re.findall(r"`(\w+=\w+)`", parameters) for name, parameters, _ in rows("Strategies", "strategy")
    }
    usual: dict[str, Any] = {
        type(strategy).__name__: strategy for strategy in CompactionSettings().effective_strategies
    }
    assert {
        name: [f"{field.name}={getattr(strategy, field.name)}" for field in fields(strategy)]
        for name, strategy in usual.items()
    } == table
