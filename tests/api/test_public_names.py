"""The public names can be imported and read; each method, argument, setting, option and event has a file of tests that names it.

`docs/versions.md` says which modules are public; in them, `__all__` is the list.
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import compaction_hooks
from compaction_hooks import (
    CallOptions,
    CompactionController,
    CompactionEvent,
    CompactionSession,
    CompactionSettings,
)
from compaction_hooks.triggers import RatioTrigger
from tests.cases import folded
from tests.test_architecture import PUBLIC_IN_CORE

NAMES = {module: importlib.import_module(module).__all__ for module in sorted(PUBLIC_IN_CORE)}


@folded("module", [*NAMES])
def test_names_are_where_programs_import_them(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module] if not hasattr(found, name)] == []


def test_the_package_says_where_a_name_of_another_module_is() -> None:
    elsewhere = [(module, name) for module in NAMES for name in NAMES[module] if module != "compaction_hooks.arguments"]
    lost: list[str] = []
    for name in {name for _, name in elsewhere} - {*dir(compaction_hooks)}:
        with pytest.raises(ImportError) as refused:
            exec(f"from compaction_hooks import {name}", {})
        told = [f"{name} is in another module: from {module} import {name}" for module, its in elsewhere if its == name]
        lost += [] if str(refused.value) in told else [str(refused.value)]
    assert lost == []
    assert not hasattr(compaction_hooks, "NoSuchName")


MODULES = [module.removeprefix("compaction_hooks.") for module in NAMES if module.count(".") == 1]


@pytest.mark.parametrize("names", [["replay"], pytest.param(MODULES, marks=pytest.mark.full)], ids=["replay", "all"])
def test_the_package_gives_its_modules_by_name_in_a_new_process(names: list[str]) -> None:
    """Also one that has the name of a function: `replay`."""
    lines = [
        "import sys",
        f"for name in {names}:",
        "    exec(f'from compaction_hooks import {name} as found')",
        "    assert found is sys.modules[f'compaction_hooks.{name}']",
        "    for each in [each for each in sys.modules if each.startswith('compaction_hooks')]: del sys.modules[each]",
    ]
    assert subprocess.call([sys.executable, "-c", "\n".join(lines)], timeout=60) == 0


@folded("module", [*NAMES])
def test_type_hints_of_public_classes_and_their_methods_can_be_read(module: str) -> None:
    """Libraries that build forms, command lines and schemas from dataclasses read them."""
    unreadable: list[str] = []
    for name in NAMES[module]:
        value = getattr(importlib.import_module(module), name)
        public = [each for each in dir(value) if each[0] != "_"] if isinstance(value, type) else []
        members = [value, *(inspect.getattr_static(value, each) for each in ["__init__", *public])]
        for hinted in members:
            try:
                get_type_hints(getattr(hinted, "fget", hinted))
            except NameError as error:
                unreadable.append(f"{name}: {error}")
            except TypeError:  # neither a class nor a function
                continue
    assert unreadable == []


def test_settings_may_be_a_field_of_a_pydantic_model() -> None:
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model: Any = pydantic.create_model("App", settings=(CompactionSettings, ...), __config__=config)
    given = CompactionSettings(trigger=RatioTrigger(0.5))
    assert model(settings=given).settings is given
    assert model(settings={"trigger": RatioTrigger(0.5)}).settings == given


FOR_THE_PACKAGE = {"engine", "begin_anew"}
"""Attributes that the package itself uses."""
FOLDERS = ("api", "faults", "overflow", "view")


def test_each_public_name_has_a_file_of_tests() -> None:
    methods = {name for made in (CompactionController, CompactionSession) for name in dir(made) if name[0] != "_"}
    names = {name.removesuffix("_sync") for name in methods - FOR_THE_PACKAGE} | {"project", "parse_overflow"}
    names |= (
        {field.name for field in fields(CompactionSettings)}
        | set(CallOptions.__annotations__)
        | {event.__name__ for event in get_args(CompactionEvent)}
    )
    names |= set(inspect.signature(CompactionController).parameters)
    tests = [path for folder in FOLDERS for path in (Path(__file__).parents[1] / folder).glob("test_*.py")]
    told = "\n".join(f"{path.stem} {ast.get_docstring(ast.parse(path.read_text('utf-8')))}" for path in tests)
    assert {name for name in names if not re.search(rf"(?<![A-Za-z]){name}(?![A-Za-z])", told)} == set()
