"""docs/judged.md and its figures: the halves and the contexts are those of the benchmark."""

import re
from pathlib import Path

from tests.benchmarks.judge.contexts import ALWAYS, OTHERS
from tests.benchmarks.judge.moments import half_of
from tests.data import PUBLIC, sessions

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "judged.md").read_text(encoding="utf-8")
FIGURES = (DOCS / "figures" / "judged.md").read_text(encoding="utf-8")


def test_the_page_names_the_halves_of_the_public_sessions() -> None:
    rows = re.findall(r"^\| ([ab]) \| (.+) \|$", PAGE, re.MULTILINE)
    told = {session: half for half, listed in rows for session in re.findall(r"`([^`]+)`", listed)}
    assert told == {session["id"]: half_of(session["id"]) for session in sessions(folder=PUBLIC)}


def test_the_page_of_figures_describes_every_context() -> None:
    assert re.findall(r"^\| `(\w+)` \| [^|\d]+[^|]*\|$", FIGURES, re.MULTILINE) == [*ALWAYS, *OTHERS]
