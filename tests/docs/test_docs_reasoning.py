"""docs/reasoning.md has a row for each family of models and for each refusal."""

import re
from pathlib import Path

from compaction_hooks.validity import FAMILIES, REFUSALS

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
