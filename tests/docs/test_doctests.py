"""The examples in docstrings show the values that they print."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

from tests.cases import folded

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "compaction_hooks").rglob("*.py"))
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
