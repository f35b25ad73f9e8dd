"""A plot: one call by live messages, and a whole session, both on logarithmic scales.

    python -m tests.benchmarks.plot FIGURES.json FILE.svg

The figures are those that `tests.benchmarks.runner --save` keeps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.figures import FLOOR, OURS, Figures, Run, load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {OURS: "#d62728", FLOOR: "#000000"}
"""What stands out; everybody else is grey."""
OTHERS = "#9a9a9a"
LABEL_STEP = 1.5
"""A label stands so many times higher than the one below it, at least."""


def draw(run: Run, path: Path) -> None:
    """Write the plot as SVG, the same bytes for the same figures."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "compaction-hooks", "svg.fonttype": "none", "font.size": 9}
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    calls, sessions = figure.subplots(1, 2)
    _calls(calls, run)
    _sessions(sessions, run)
    figure.savefig(path, metadata={"Date": None})


def _calls(axes: Axes, run: Run) -> None:
    ends: list[tuple[float, int, Figures]] = []
    for found in run.figures:
        sizes = sorted(found.idle)
        micros = [(found.idle_seconds(size) or 0) * 1e6 for size in sizes]
        style = "--" if found.usage else "-"
        axes.plot(sizes, micros, style, marker=".", color=_colour(found), zorder=3 if found.peer in COLOURS else 2)
        ends.append((micros[-1], sizes[-1], found))
    axes.set(xscale="log", yscale="log", xlabel="live messages", ylabel="microseconds")
    axes.set_title("One call when nothing is due")
    axes.grid(visible=True, alpha=0.3)
    height = 0.0
    for micros_at_end, size, found in sorted(ends, key=lambda end: end[0]):
        height = max(micros_at_end, height * LABEL_STEP)
        axes.annotate(
            _label(found),
            (size, micros_at_end),
            (1.06, height),
            textcoords=axes.get_yaxis_transform(),
            fontsize=7,
            va="center",
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": OTHERS, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
    axes.set_ylim(top=max(axes.get_ylim()[1], height * LABEL_STEP))


def _sessions(axes: Axes, run: Run) -> None:
    bars = sorted((found for found in run.figures if found.spent), key=Figures.total_seconds, reverse=True)
    seconds = [found.total_seconds() for found in bars]
    drawn = axes.barh([_label(found) for found in bars], seconds, color=[_colour(found) for found in bars])
    axes.bar_label(drawn, [f" {value:.3g}" for value in seconds], fontsize=7)
    axes.set(xscale="log", xlabel="seconds in the hook")
    axes.set_title(f"All {run.calls:,} calls of a session")
    axes.margins(x=0.15)


def _label(found: Figures) -> str:
    return found.peer + (", with usage" if found.usage else "")


def _colour(found: Figures) -> str:
    return COLOURS.get(found.peer, OTHERS)


if __name__ == "__main__":
    draw(load(Path(sys.argv[1])), Path(sys.argv[2]))
