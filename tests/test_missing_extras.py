"""An adapter without its framework says what to install; a framework that is broken speaks for itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder

import pytest

from compaction_hooks.errors import MissingExtraError

ADAPTERS = [
    ("tinyagent", "tinyagent", "tinyagent"),
    ("langgraph", "langgraph", "langgraph"),
    ("langchain", "langchain", "langchain"),
    ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ("litellm", "litellm", "litellm"),
    ("redis", "redis", "redis"),
    ("postgres", "psycopg", "postgres"),
    ("otel", "opentelemetry", "otel"),
]
"""Module of `compaction_adapters`, the package it cannot do without, the extra."""

Break = Callable[[str, str], None]


class Without(MetaPathFinder):
    """Finds no `package`; what it says is missing is `named`."""

    def __init__(self, package: str, named: str) -> None:
        self._package, self._named = package, named

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {self._named!r}", name=self._named)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Break]:
    """Take a package away, and what was imported with it; all is back afterwards."""
    before = dict(sys.modules)

    def take_away(package: str, named: str) -> None:
        for name in before:
            if name.partition(".")[0] in (package, "compaction_adapters"):
                del sys.modules[name]
        monkeypatch.setattr(sys, "meta_path", [Without(package, named), *sys.meta_path])
        if named == package:  # who only asks whether it is there gets no error
            monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    yield take_away
    for name in [name for name in sys.modules if name.startswith("compaction_adapters")]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.parametrize(("module", "package", "extra"), ADAPTERS)
def test_an_adapter_without_its_framework_says_what_to_install(
    without: Break, module: str, package: str, extra: str
) -> None:
    without(package, package)
    with pytest.raises(MissingExtraError, match=rf"pip install 'compaction-hooks\[{extra}\]'"):
        importlib.import_module(f"compaction_adapters.{module}")


@pytest.mark.parametrize(("module", "package", "extra"), ADAPTERS)
def test_what_the_framework_itself_misses_is_not_taken_for_it(
    without: Break, module: str, package: str, extra: str
) -> None:
    without(package, "something_it_needs")
    with pytest.raises(ModuleNotFoundError, match="something_it_needs") as raised:
        importlib.import_module(f"compaction_adapters.{module}")
    assert not isinstance(raised.value, MissingExtraError)
