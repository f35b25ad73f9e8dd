"""Figures of many runs together, and their table; figures travel from worker processes as plain values."""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tests.invariants import PROMISES, Report

RIGID_RATIO = 0.9
"""The untouched list may come back only where what no compaction can free takes at least this much of the window by estimate."""


@dataclass
class Figures:
    """Figures of many runs together.

    Attributes:
        histories: How many were run, each call by call.
        compacted: In how many of them something was compacted.
        forced: Compactions after less growth than a fifth, because the view would not have fitted the window.
        unfit: Histories in which some request cannot fit: parts that no compaction can free take the window.
        worst_fill: The largest view, as a part of its window.
        least_growth: The least the context grew by between two compactions, where it was not forced.
        sent, sent_without: Tokens of all views, and of all whole lists.
        broken: By promise, how often it was broken.
        examples: Where and how, one for each history.
    """

    histories: int = 0
    compacted: int = 0
    calls: int = 0
    compactions: int = 0
    forced: int = 0
    unfit: int = 0
    worst_fill: float = 0.0
    least_growth: float = float("inf")
    sent: int = 0
    sent_without: int = 0
    broken: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, name: str, report: Report, window: int) -> None:
        """Take in one run."""
        self.histories += 1
        self.compacted += report.compactions > 0
        self.calls += report.calls
        self.compactions += report.compactions
        self.forced += report.forced
        self.unfit += bool(report.over_window)
        self.worst_fill = max(self.worst_fill, report.largest_view / window)
        self.least_growth = min([self.least_growth, *report.growth])
        self.sent += report.sent_with
        self.sent_without += report.sent_without
        self.broken = dict(Counter(self.broken) + Counter(promise for promise, _ in report.broken))
        self.examples += [f"{name} in {window}: {promise}, {how}" for promise, how in report.broken[:1]]

    def add_unfit(self, name: str, report: Report) -> None:
        """Hold the lists that came back untouched against what cannot be freed."""
        for index, rigid in report.over_window.items():
            if rigid < RIGID_RATIO:
                self.broken["over budget"] = self.broken.get("over budget", 0) + 1
                self.examples.append(f"{name}, message {index}: untouched, though only {rigid:.0%} of it cannot shrink")


def table(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the lines of the table; rows of one name are taken together."""
    together: dict[str, Figures] = {}
    for name, values in rows:
        one = Figures(**values)
        together[name] = _sum(together[name], one) if name in together else one
    cells = {name: _cells(figures) for name, figures in together.items()}
    names = ["", *next(iter(cells.values()))]
    lines = [names, *([name, *values.values()] for name, values in cells.items())]
    return [f"| {' | '.join(line)} |" for line in zip(*lines, strict=True)]


def _sum(one: Figures, other: Figures) -> Figures:
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "worst_fill": max,
        "least_growth": min,
        "broken": lambda a, b: dict(Counter(a) + Counter(b)),
    }
    pairs = {each.name: (getattr(one, each.name), getattr(other, each.name)) for each in fields(Figures)}
    return Figures(**{name: ways.get(name, operator.add)(*pair) for name, pair in pairs.items()})


def _cells(figures: Figures) -> dict[str, str]:
    growth = figures.least_growth
    return {
        "histories": f"{figures.histories:,}",
        "calls": f"{figures.calls:,}",
        "compactions": f"{figures.compactions:,}",
        "worst fill": f"{figures.worst_fill:.1%}",
        "least growth": f"{growth:.1%}" if growth < float("inf") else "",
        "forced": f"{figures.forced:,}",
        "cannot fit": f"{figures.unfit:,}",
        "fewer tokens": f"{1 - figures.sent / max(figures.sent_without, 1):.0%}",
        **{promise: f"{figures.broken.get(promise, 0):,}" for promise in PROMISES},
    }
