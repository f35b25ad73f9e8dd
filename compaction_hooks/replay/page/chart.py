"""Charts of a replay as SVG. They hold numbers only; places across are shares of the width, so that a chart fits any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from compaction_hooks.replay.numbers import pluralize, short
from compaction_hooks.replay.replayed import Replay

HEIGHT: Final = 330
"""Of the context's chart, in pixels: the plot, the axis and the legend below it."""
PLOT: Final = 262
"""Height of its plot, in pixels."""
MONEY: Final = 96
"""Height of a plot of money, in pixels."""
SPAN: Final = 10_000
"""Units across a plot."""
TOP_RATIO: Final = 3.0
"""Upper limit of the plot, as a multiple of the window: by how much a call exceeds it does not matter."""
HEADROOM: Final = 1.12
"""Room above the highest line."""
MONEY_POINTS: Final = 300
"""A line of money rises evenly, and needs no more points."""
NAMED_CALLS: Final = 12
"""More compactions than these are counted in the description, and not named."""
WIDTH: Final = 880
MARGIN: Final = 24
"""Of the chart in a file of its own, in pixels."""
TICKS: Final = (1, 2, 5)
"""First digits of the distance between the numbers of an axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChart:
    """What the chart of a context shows, in tokens.

    Attributes:
        sent, without: By call, with compaction and without.
        before: By number of a call with a compaction, the context before it.
    """

    window: int
    trigger: int
    sent: Sequence[int]
    without: Sequence[int]
    before: Mapping[int, int]


def chart_of(replay: Replay) -> ContextChart:
    """Return what the chart of a replay shows."""
    return ContextChart(
        window=replay.window,
        trigger=replay.trigger,
        sent=[call.tokens_sent for call in replay.calls],
        without=[call.tokens_without for call in replay.calls],
        before={compaction.call: compaction.tokens_before for compaction in replay.compactions},
    )


def write_chart(chart: ContextChart) -> str:
    """Return the chart as a file of its own, for light and dark surroundings."""
    styles = "".join(read_file(name) for name in ("chart_colors.css", "chart.css"))
    height = HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-labelledby="title desc">\n'
        f'<title id="title">Context size at each call</title>\n<desc id="desc">{describe(chart)}</desc>\n'
        f"<style>\n{styles}</style>\n"
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>\n'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{WIDTH - 2 * MARGIN}" height="{HEIGHT}" overflow="visible">\n'
        f"{draw_context(chart)}</svg>\n</svg>\n"
    )


def read_file(name: str) -> str:
    """Return the text of a file of this package."""
    return files("compaction_hooks.replay.page").joinpath(name).read_text(encoding="utf-8")


def describe(chart: ContextChart) -> str:
    """Return the chart in words."""
    if not chart.sent:
        return "No call to show."
    at = ", ".join(map(str, chart.before)) if 0 < len(chart.before) <= NAMED_CALLS else ""
    return (
        f"{pluralize(len(chart.sent), 'call')} in a window of {short(chart.window)} tokens. "
        f"Without compaction the context grows to {short(max(chart.without))} tokens. "
        f"With it, at most {short(max(chart.sent))} tokens are sent. "
        f"{pluralize(len(chart.before), 'compaction')}{at and ', at call '}{at}."
    )


# -- the context


def draw_context(chart: ContextChart) -> str:
    """Return the content of an SVG of `HEIGHT` pixels: sent tokens and those without compaction, window, trigger, compactions."""
    if not chart.sent:
        return ""

    sent, without = chart.sent, chart.without
    before = {call - 1: tokens for call, tokens in chart.before.items()}
    largest = max(*sent, *without)
    top = min(largest * HEADROOM, chart.window * TOP_RATIO)
    tooth = _saw_tooth(sent, before)

    plot = (
        f'<svg width="100%" height="{PLOT}" viewBox="0 0 {SPAN} {PLOT}" preserveAspectRatio="none">'
        f'<path class="area" d="{_path(tooth, len(sent), top, PLOT)}L{SPAN} {PLOT}L0 {PLOT}Z"/>'
        f'<path class="without" d="{_path(enumerate(without), len(sent), top, PLOT)}"/>'
        f'<path class="sent" d="{_path(tooth, len(sent), top, PLOT)}"/></svg>\n'
    )

    beyond = f"without compaction up to {short(largest)} tokens" if largest > top else ""
    rows = (
        _level("window", chart.window, top, -6),
        _level("trigger", chart.trigger, top, 16),
        plot,
        f'<text class="label" x="100%" y="12" text-anchor="end">{beyond}</text>\n' if beyond else "",
        _axis(len(sent)),
        *(_mark(index, len(sent), tokens, sent[index]) for index, tokens in before.items()),
        _legend(bool(before)),
    )
    return "".join(rows)


def _saw_tooth(sent: Sequence[int], before: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the points of the sent line; a call with a compaction has two, so that the line falls straight down."""
    points: list[tuple[int, int]] = []
    for index, tokens in enumerate(sent):
        if index in before:
            points.append((index, before[index]))
        points.append((index, tokens))
    return points


def _path(points: Iterable[tuple[int, float]], count: int, top: float, height: int) -> str:
    if count == 1:  # a line across, for one call
        points = [(place, value) for _, value in points for place in (0, 1)]
        count = 2
    drawn = (f"{round(index * SPAN / (count - 1))} {round(height * (1 - value / top), 1):g}" for index, value in points)
    return "M" + "L".join(drawn)


def _level(name: str, tokens: int, top: float, offset: int) -> str:
    """Return the line of a size, with its name above it, or below it for a positive offset; only the name if it is too high."""
    if tokens > top:
        return f'<text class="label" x="0" y="12">{name} {short(tokens)} ↑</text>\n' if name == "window" else ""
    y = round(PLOT * (1 - tokens / top), 1)
    return (
        f'<line class="{name}" x1="0" x2="100%" y1="{y:g}" y2="{y:g}"/>'
        f'<text class="label" x="0" y="{y + offset:g}">{name} {short(tokens)}</text>\n'
    )


def _share(index: int, count: int) -> str:
    return f"{100 * index / (count - 1):.2f}%" if count > 1 else "50%"


def _axis(count: int) -> str:
    """Return the line of the axis, and the numbers of some calls below it."""
    step = next(digit * 10**zeros for zeros in range(12) for digit in TICKS if digit * 10**zeros * 5 >= count)
    inner = range(step, count - step // 2, step)

    texts = [
        f'<text class="label" x="0" y="{PLOT + 26}">call 1</text>',
        *(
            f'<text class="label" x="{_share(number - 1, count)}" y="{PLOT + 26}" text-anchor="middle">{number}</text>'
            for number in inner
            if number > 1
        ),
    ]

    if count > 1:
        texts.append(f'<text class="label" x="100%" y="{PLOT + 26}" text-anchor="end">{count}</text>')
    return f'<line class="axis" x1="0" x2="100%" y1="{PLOT}" y2="{PLOT}"/>{"".join(texts)}\n'


def _mark(index: int, count: int, before: int, after: int) -> str:
    x = _share(index, count)
    said = f"compaction at call {index + 1}: {short(before)} to {short(after)} tokens"
    return f'<circle class="mark" cx="{x}" cy="{PLOT}" r="4"><title>{said}</title></circle>\n'


def _legend(has_compactions: bool) -> str:
    y, line = HEIGHT - 8, HEIGHT - 12
    compaction = (
        f'<circle class="mark" cx="200" cy="{line}" r="4"/><text class="label" x="207" y="{y}">compaction</text>'
        if has_compactions
        else ""
    )

    return (
        f'<line class="sent" x1="0" x2="16" y1="{line}" y2="{line}"/><text class="label" x="20" y="{y}">sent</text>'
        f'<line class="without" x1="52" x2="68" y1="{line}" y2="{line}"/>'
        f'<text class="label" x="72" y="{y}">without compaction</text>{compaction}\n'
    )


# -- money


def draw_money(sent: Sequence[float], without: Sequence[float]) -> str:
    """Return the content of an SVG of `MONEY` pixels: dollars summed up call by call, with compaction and without."""
    if not sent:
        return ""
    top = max(*sent, *without, 1e-9) * HEADROOM
    step = max(len(sent) // MONEY_POINTS, 1)
    places = [*range(0, len(sent) - 1, step), len(sent) - 1]

    def line(amounts: Sequence[float]) -> str:
        return _path([(place, amounts[place]) for place in places], len(sent), top, MONEY)

    return (
        f'<svg width="100%" height="{MONEY}" viewBox="0 0 {SPAN} {MONEY}" preserveAspectRatio="none">'
        f'<path class="area" d="{line(sent)}L{SPAN} {MONEY}L0 {MONEY}Z"/>'
        f'<path class="without" d="{line(without)}"/><path class="sent" d="{line(sent)}"/></svg>'
        f'<line class="axis" x1="0" x2="100%" y1="{MONEY}" y2="{MONEY}"/>'
    )
