"""docs/reliability.md names a test for every fault, and every test it names is there and collected."""

from __future__ import annotations

import importlib.util
import os.path
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.cases import folded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
HEADER = "| fault | you see | tests |"
TEST = re.compile(r"`((?:\w+/)*test_\w+\.py::test_[^`]+)`")


def rows() -> list[list[str]]:
    """Return the cells of every row of the tables of faults."""
    found: list[list[str]] = []
    is_inside = False
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            is_inside = False
        elif line == HEADER:
            is_inside = True
        elif is_inside and not line.startswith("|--"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


ROWS = rows()
NEEDS_PROVIDER = ("faults/test_faults_over_http.py",)
WITHOUT_A_ROW = {
    "faults/test_estimator_faults.py::test_numbers_of_any_kind_are_taken",
    "faults/test_usage_faults.py::test_a_report_before_any_call_is_ignored",
}
"""Tests of helpers that work, in the modules for those that fail."""


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """Every test that pytest finds in the files named, as "file::name[id]", the file relative to tests/."""
    files = {f"tests/{name.partition('::')[0]}" for row in ROWS for name in TEST.findall(row[-1])}
    by_folder = groupby(sorted(files), key=os.path.dirname)
    return {test for _, group in by_folder for test in collect(*group)}


def collect(*files: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {line.removeprefix("tests/") for line in done.stdout.splitlines() if "::" in line}


def is_collected(name: str, collected: set[str]) -> bool:
    """Return whether a test with this name, and this as the first of its ids, is collected."""
    start = name.removesuffix("]")
    return any(test == name or test.startswith((f"{start}[", f"{start}-", f"{start}]")) for test in collected)


def test_the_page_has_the_table() -> None:
    assert len(ROWS) > 50
    assert {len(row) for row in ROWS} == {3}
    assert all(fault and seen for fault, seen, _ in ROWS)


@folded("row", {row[0]: row for row in ROWS})
def test_every_fault_has_tests_of_these_names(row: list[str]) -> None:
    names = [name.partition("[")[0].split("::") for name in TEST.findall(row[2])]
    assert names, "a row without a test"
    texts = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file, _ in names}
    assert [test for file, test in names if f"def {test}(" not in texts[file]] == []


@pytest.mark.full
@folded("row", {row[0]: row for row in ROWS})
def test_every_fault_has_a_test_that_is_collected(row: list[str], collected: set[str]) -> None:
    names = TEST.findall(row[2])
    assert names, "a row without a test"
    assert not TEST.sub("", row[2]).strip(), "something else than tests in the column of tests"
    if importlib.util.find_spec("uvicorn") is None:
        names = [name for name in names if not name.startswith(NEEDS_PROVIDER)]
    assert [name for name in names if not is_collected(name, collected)] == []


@pytest.mark.full
def test_every_test_of_a_fault_is_in_the_table(collected: set[str]) -> None:
    named = {name.partition("[")[0] for row in ROWS for name in TEST.findall(row[2])}
    written = {test.partition("[")[0] for test in collected if test.startswith("faults/")}
    assert written - named == WITHOUT_A_ROW
