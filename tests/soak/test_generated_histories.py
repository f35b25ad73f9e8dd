"""10,000 generated histories, realistic and hostile, call by call: `nox -s soak`. The fast suite runs the first hundred."""

from collections.abc import Callable

import pytest

from tests.generated_runs import run_generated
from tests.soak.figures import Figures

HISTORIES = 10_000
PART = 125


@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_every_generated_history_keeps_every_promise(first: int, note_figures: Callable[[str, Figures], None]) -> None:
    rows: dict[str, Figures] = {}
    for seed in range(first, first + PART):
        one = run_generated(seed)
        figures = rows.setdefault(f"generated, {one.kind}, {one.window:,}", Figures())
        figures.add(f"seed {seed}", one.report, one.window)
        if one.kind == "realistic":
            figures.add_unfit(f"seed {seed}", one.report)
    for name, figures in rows.items():
        note_figures(name, figures)
    assert not [example for figures in rows.values() for example in figures.examples]
