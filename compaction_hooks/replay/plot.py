"""The size of the context at every call, drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

HEIGHT_ROWS = 12
"""Enough to tell trigger and window apart, and to leave room for the table below on one screen."""
TOP_RATIO = 1.8
"""Of the window, the most the plot shows: beyond it, how far a call without compaction is off no longer matters."""
HEADROOM_RATIO = 1.15
"""Of the window, the least it shows, so that its line has room above it."""
MAX_COLUMNS_PER_CALL = 8
"""A short session is not drawn wider than this, or its few bars would look like a picture of something else."""


class Ink(Enum):
    """What a character stands for."""

    NOTHING = "nothing"
    LABEL = "label"
    SENT = "sent"
    WITHOUT = "without"
    WINDOW = "window"
    TRIGGER = "trigger"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters to draw with.

    Attributes:
        bars: A cell filled from below, from almost empty to full.
        beyond: A value above the plot.
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
    """One or more neighbouring calls, or a part of one; sizes in tokens, the largest of its calls."""

    sent: int
    without: int
    has_compaction: bool


def columns(without: Sequence[int], sent: Sequence[int], compacted: frozenset[int], width: int) -> list[Column]:
    """Lay calls out on at most `width` columns: several calls share one, or one call takes several.

    Args:
        compacted: Places of the calls a compaction was made for, from 0. Each is marked once, however wide its call is.
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
        labels: Texts to stand beside sizes in tokens. Where two fall on one row, the first is shown.
    """
    top = upper_edge(drawn, window)
    margin = max(len(text) for _, text in labels)
    beside = {_row(tokens, top): text for tokens, text in reversed(labels)}
    lines = {_row(trigger, top): (glyphs.trigger, Ink.TRIGGER), _row(window, top): (glyphs.window, Ink.WINDOW)}
    rows: list[list[Cell]] = []
    for row in range(HEIGHT_ROWS - 1, -1, -1):
        label = beside.get(row, "")
        head: list[Cell] = [(label.rjust(margin), Ink.LABEL), (glyphs.side if label else " ", Ink.LABEL)]
        rows.append(head + [_cell(column, row, top, lines.get(row, (" ", Ink.NOTHING)), glyphs) for column in drawn])
    marks: list[Cell] = [
        (glyphs.mark, Ink.COMPACTION) if column.has_compaction else (glyphs.axis, Ink.LABEL) for column in drawn
    ]
    rows.append([("0".rjust(margin), Ink.LABEL), (glyphs.corner, Ink.LABEL), *marks])
    return rows


def upper_edge(drawn: Sequence[Column], window: int) -> int:
    """Return the largest size the plot shows, in tokens."""
    largest = max((max(column.sent, column.without) for column in drawn), default=0)
    return round(min(max(largest, window * HEADROOM_RATIO), window * TOP_RATIO))


def _row(tokens: int, top: int) -> int:
    """The row a size falls on, 0 the lowest; a size on the border of two falls on the lower, one beyond the plot on none."""
    return max(math.ceil(tokens / top * HEIGHT_ROWS) - 1, 0)


def _cell(column: Column, row: int, top: int, line: Cell, glyphs: Glyphs) -> Cell:
    """What stands in one cell: the bar before the dot before the line."""
    filled = min(column.sent / top, 1.0) * HEIGHT_ROWS - row
    if filled > 0:
        step = min(int(filled * len(glyphs.bars)), len(glyphs.bars) - 1)
        return glyphs.bars[step], Ink.SENT
    if column.without > top and row == HEIGHT_ROWS - 1:
        return glyphs.beyond, Ink.WITHOUT
    if _row(column.without, top) == row:
        return glyphs.without, Ink.WITHOUT
    return line
