"""An adapter without its framework names the package to install; a broken framework raises its own error."""

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from compaction_hooks.errors import MissingExtraError

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
ADAPTERS = [
    (extra.replace("-", "_"), adapter["package"], extra)
    for extra, adapter in PYPROJECT["tool"]["compaction-hooks"]["adapters"].items()
]
"""The module of `compaction_adapters`, the package it requires, and the extra."""

Break = Callable[[str, str], None]


class Without(MetaPathFinder):
    """A finder without `package`; its error names `named` as missing."""

    def __init__(self, package: str, named: str) -> None:
        self._package, self._named = package.partition(".")[0], named

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {self._named!r}", name=self._named)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Break]:
    """Hide a package and the modules that import it; restore all modules afterwards."""
    before = dict(sys.modules)

    def take_away(package: str, named: str) -> None:
        for name in before:
            if name.partition(".")[0] in (package.partition(".")[0], "compaction_adapters"):
                del sys.modules[name]
        monkeypatch.setattr(sys, "meta_path", [Without(package, named), *sys.meta_path])
        if named == package:  # a check whether the package is installed gets no error
            monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    yield take_away
    for name in [name for name in sys.modules if name.startswith("compaction_adapters")]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.parametrize(("module", "package", "extra"), ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra_to_install(
    without: Break, module: str, package: str, extra: str
) -> None:
    without(package, package)
    with pytest.raises(MissingExtraError, match=rf"pip install 'compaction-hooks\[{extra}\]'"):
        importlib.import_module(f"compaction_adapters.{module}")


@pytest.mark.parametrize(("module", "package", "extra"), ADAPTERS)
def test_a_module_missing_inside_the_framework_is_not_taken_for_it(
    without: Break, module: str, package: str, extra: str
) -> None:
    without(package, "something_it_needs")
    with pytest.raises(ModuleNotFoundError, match="something_it_needs") as raised:
        importlib.import_module(f"compaction_adapters.{module}")
    assert not isinstance(raised.value, MissingExtraError)


def test_every_adapter_is_in_the_table_and_every_extra_in_all() -> None:
    folder = Path(__file__).parents[1] / "adapters" / "compaction_adapters"
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert found - {"__init__", "kit", "langchain_core"} == {module for module, _, _ in ADAPTERS}
    extras = PYPROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"[a-z-]+", everything.partition("[")[2])) == extras.keys() - {"all"}
