"""Every recorded conversation, call by call, at four windows, with usage reported and without: `nox -s soak`.

Sizes are counted with a real tokenizer (cl100k_base), not with our own estimate.
"""

from collections.abc import Callable

import pytest

from tests.data import needs_data, sessions
from tests.invariants import measure_by, run
from tests.soak.figures import Figures
from tests.token_accuracy import real_tokenizer

WINDOWS = (8_192, 16_384, 32_768, 131_072)
PARTS = 4
"""The conversations are dealt out to so many tests, which may run in parallel."""

Note = Callable[[str, Figures], None]


def replay(window: int, *, reports_usage: bool, first: int, every: int) -> Figures:
    measure = measure_by(real_tokenizer("cl100k_base").estimate_tokens)
    figures = Figures()
    for record in list(sessions())[first::every]:
        report = run(record, window, measure, reports_usage=reports_usage)
        figures.add(record["id"], report, window)
        figures.add_unfit(record["id"], report)
    return figures


def row(window: int, reports_usage: bool) -> str:
    return f"recorded, {window:,}{', usage reported' if reports_usage else ''}"


@needs_data
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("reports_usage", [False, True], ids=["estimated", "usage reported"])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_conversation_keeps_every_promise(
    window: int, reports_usage: bool, part: int, note_figures: Note
) -> None:
    figures = replay(window, reports_usage=reports_usage, first=part, every=PARTS)
    note_figures(row(window, reports_usage), figures)
    assert not figures.examples
