"""docs/figures/reliability.md names a test for every fault, and every test of a fault."""

import re
from pathlib import Path

from tests.cases import folded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "figures" / "reliability.md").read_text(encoding="utf-8")
HEADER = "| fault | you see | tests |"
TEST = re.compile(r"`((?:\w+/)*test_\w+\.py::test_[^`]+)`")


def rows() -> list[list[str]]:
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
WITHOUT_A_ROW = {
    "faults/test_estimator_faults.py::test_numbers_of_any_kind_are_taken",
    "faults/test_usage_faults.py::test_a_report_before_any_call_is_ignored",
}
"""Tests of helpers that work, in the modules for those that fail."""


def test_the_page_has_the_table() -> None:
    assert len(ROWS) > 50
    assert {len(row) for row in ROWS} == {3}
    assert all(fault and seen for fault, seen, _ in ROWS)


@folded("row", {row[0]: row for row in ROWS})
def test_every_fault_has_tests_of_these_names(row: list[str]) -> None:
    names = [re.split(r"::|\[", name.removesuffix("]")) for name in TEST.findall(row[2])]
    assert names, "a row without a test"
    assert not TEST.sub("", row[2]).strip(), "something else than tests in the column of tests"
    texts = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file, *_ in names}
    assert [test for file, test, *_ in names if f"def {test}(" not in texts[file]] == []
    assert [id for file, _, *ids in names for id in ids if id not in texts[file]] == []


def test_every_test_of_a_fault_is_in_the_table() -> None:
    named = {name.partition("[")[0] for row in ROWS for name in TEST.findall(row[2])}
    modules = {name.partition("::")[0] for name in named if name.startswith("faults/")}
    written = {
        f"{file}::{test}"
        for file in modules
        for test in re.findall(r"^def (test_\w+)", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert written - named == WITHOUT_A_ROW
