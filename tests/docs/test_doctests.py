"""The examples in docstrings show the values that they print."""

import doctest
import importlib
from pathlib import Path

import compaction_hooks
from tests.cases import folded

PACKAGE = Path(compaction_hooks.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@folded("module", MODULES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    try:
        imported = importlib.import_module(module)
    except ImportError:  # an extra is not installed
        return
    assert doctest.testmod(imported).failed == 0


def test_there_are_examples() -> None:
    assert len(MODULES) > 10
