"""The figures of a benchmark run, saved to a file and read by the report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

OURS = "compaction-hooks"
FLOOR = "floor"


@dataclass
class Figures:
    """One peer's figures, with or without reported usage.

    Attributes:
        peer: Its name in the tables.
        usage: Whether answers had the provider's token counts.
        idle: Seconds of one call when nothing is due, by the number of live messages; one figure for each round.
        sent: Its requests in the generated session, as `scenarios.Sent`.
        spent: Their times, as `scenarios.Spent`; one for each round.
        peak: Peak memory in that session beyond the history, in bytes; None if not measured.
        recorded: Requests and times of recorded sessions, by name.
    """

    peer: str
    usage: bool
    idle: dict[int, list[float]] = field(default_factory=dict)
    sent: dict[str, Any] = field(default_factory=dict)
    spent: list[dict[str, Any]] = field(default_factory=list)
    peak: int | None = None
    recorded: dict[str, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)

    def idle_seconds(self, messages: int) -> float | None:
        """Return the median over the rounds."""
        return median(self.idle[messages]) if messages in self.idle else None

    def total_seconds(self) -> float:
        """Return the median over the rounds."""
        return median(float(spent["total"]) for spent in self.spent)

    def compaction_seconds(self) -> float | None:
        """Return the median over the rounds; None if nothing was compacted."""
        found = [spent["compaction"] for spent in self.spent if spent["compaction"] is not None]
        return median(found) if found else None

    def growth(self, low: int, high: int) -> float | None:
        """Return the exponent by which a call's time grows with the live messages: 0 constant, 1 linear."""
        first, last = self.idle_seconds(low), self.idle_seconds(high)
        return None if first is None or last is None else math.log(last / first) / math.log(high / low)


@dataclass
class Run:
    """A whole run.

    Attributes:
        date: In UTC.
        machine: Processor, cores, Python.
        command: The command line.
        messages: Length of the generated session; its tokens, by a real tokenizer; its model calls.
        window: Window of that session, in tokens.
        recorded_window: Window of the recorded sessions, in tokens.
        recorded: Number of messages of the recorded sessions, by name.
        peers: Description of each worker, by name.
        missing: Peers that could not be run.
    """

    date: str
    machine: str
    command: str
    messages: int
    tokens: int
    calls: int
    window: int
    recorded_window: int
    recorded: dict[str, int] = field(default_factory=dict)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)

    def of(self, peer: str, *, usage: bool) -> Figures | None:
        """Return a peer's figures; None if it was not run this way."""
        return next((found for found in self.figures if found.peer == peer and found.usage is usage), None)

    def sizes(self) -> list[int]:
        """Return the numbers of live messages of timed calls, ascending."""
        return sorted({size for found in self.figures for size in found.idle})

    def by_total(self, *, usage: bool) -> Iterator[Figures]:
        """Yield the figures of all peers, the cheapest session first."""
        found = [figures for figures in self.figures if figures.usage is usage and figures.spent]
        yield from sorted(found, key=Figures.total_seconds)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Run:
    """Read a file of `Run.save`."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Run(**stored | {"figures": list(map(_figures, stored["figures"]))})


def _figures(stored: dict[str, Any]) -> Figures:
    # Keys in JSON are texts.
    return Figures(**stored | {"idle": {int(size): seconds for size, seconds in stored["idle"].items()}})
