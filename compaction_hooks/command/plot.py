"""A character plot of the context's size at every call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

HEIGHT_ROWS = 12
"""Enough to tell trigger and window apart; the plot and the table below it still fit one screen."""
TOP_RATIO = 1.8
"""Upper limit of the plot, as a multiple of the window: by how much a call exceeds it does not matter."""
HEADROOM_RATIO = 1.15
"""Lower limit of the plot's top, as a multiple of the window, so that there is room above its line."""
MAX_COLUMNS_PER_CALL = 8
"""A wider bar would be mistaken for several calls."""


class Ink(Enum):
    """The meaning of a character, which decides its color."""

    NOTHING = "nothing"
    LABEL = "label"
    SENT = "sent"
    WITHOUT = "without"
    WINDOW = "window"
    TRIGGER = "trigger"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a plot.

    Attributes:
        bars: Cells filled from below, from almost empty to full.
        beyond: Marks a value above the plot.
    """

    bars: str
    without: str
    beyond: str
    window: str
    trigger: str
    mark: str
    axis: str
    side: str
    corner: str


UNICODE = Glyphs(
    bars="▁▂▃▄▅▆▇█",
    without="•",
    beyond="↑",
    window="─",
    trigger="┄",
    mark="▲",
    axis="─",
    side="┤",
    corner="└",
)
ASCII = Glyphs(bars="#", without="o", beyond="|", window="=", trigger="-", mark="^", axis="-", side="|", corner="+")

Cell = tuple[str, Ink]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the plot: several neighboring calls, or a part of one. Sizes are those of the largest call, in tokens."""

    sent: int
    without: int
    has_compaction: bool


def columns(without: Sequence[int], sent: Sequence[int], compacted: frozenset[int], width: int) -> list[Column]:
    """Arrange calls in at most `width` columns: several calls share a column, or one call takes several.

    Args:
        compacted: Indexes of the calls with a compaction. Each is marked once, even if its call takes several columns.
    """
    count = min(width, len(sent) * MAX_COLUMNS_PER_CALL)
    found: list[Column] = []
    marked = 0
    for place in range(count):
        first = place * len(sent) // count
        last = max(first + 1, (place + 1) * len(sent) // count)
        unmarked = range(max(first, marked), last)

        found.append(
            Column(
                sent=max(sent[first:last]),
                without=max(without[first:last]),
                has_compaction=not compacted.isdisjoint(unmarked),
            )
        )
        marked = last

    return found


def plot(
    drawn: Sequence[Column], *, window: int, trigger: int, labels: Sequence[tuple[int, str]], glyphs: Glyphs
) -> list[list[Cell]]:
    """Return the rows of the plot, the axis last; each is a list of cells, labels included.

    Args:
        labels: Texts for sizes in tokens. If two fall on one row, the first is shown.
    """
    top = upper_edge(drawn, window)
    margin = max(len(text) for _, text in labels)
    label_of_row = {_row(tokens, top): text for tokens, text in reversed(labels)}
    lines = {_row(trigger, top): (glyphs.trigger, Ink.TRIGGER), _row(window, top): (glyphs.window, Ink.WINDOW)}

    rows: list[list[Cell]] = []
    for row in range(HEIGHT_ROWS - 1, -1, -1):
        label = label_of_row.get(row, "")
        head: list[Cell] = [(label.rjust(margin), Ink.LABEL), (glyphs.side if label else " ", Ink.LABEL)]
        rows.append(head + [_cell(column, row, top, lines.get(row, (" ", Ink.NOTHING)), glyphs) for column in drawn])

    marks: list[Cell] = [
        (glyphs.mark, Ink.COMPACTION) if column.has_compaction else (glyphs.axis, Ink.LABEL) for column in drawn
    ]
    rows.append([("0".rjust(margin), Ink.LABEL), (glyphs.corner, Ink.LABEL), *marks])
    return rows


def upper_edge(drawn: Sequence[Column], window: int) -> int:
    """Return the size at the top of the plot, in tokens."""
    largest = max((max(column.sent, column.without) for column in drawn), default=0)
    return round(min(max(largest, window * HEADROOM_RATIO), window * TOP_RATIO))


def _row(tokens: int, top: int) -> int:
    """Return the row of a size, counted from the bottom. A size on a border is in the lower row, one above the plot in none."""
    return max(math.ceil(tokens / top * HEIGHT_ROWS) - 1, 0)


def _cell(column: Column, row: int, top: int, line: Cell, glyphs: Glyphs) -> Cell:
    """Return one cell: the bar if it reaches the cell, else the dot, else the line."""
    filled = min(column.sent / top, 1.0) * HEIGHT_ROWS - row
    if filled > 0:
        step = min(int(filled * len(glyphs.bars)), len(glyphs.bars) - 1)
        return glyphs.bars[step], Ink.SENT
    if column.without > top and row == HEIGHT_ROWS - 1:
        return glyphs.beyond, Ink.WITHOUT
    if _row(column.without, top) == row:
        return glyphs.without, Ink.WITHOUT
    return line
