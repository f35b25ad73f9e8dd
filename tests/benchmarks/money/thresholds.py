"""Thresholds in a large window, next to the best times of compaction that hindsight knows.

    python -m tests.benchmarks.money.thresholds [--window 1000000] [--at 120000 200000 272000] [--data FOLDER | --public]

Conversations of one source are joined, one after the other, to long ones that just fit the window; each is replayed with the
default, with each threshold and with none. *Regret* is what a threshold costs more than the best times, in percent: these are found
by dynamic programming over all calls, with a view after each compaction as large as the replays' own, and the same summaries.
Dollars are of genai-prices, under the rules of each provider's cache. No model, no network.
"""

import argparse
import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import NamedTuple
from unittest.mock import patch

from compaction_hooks import CompactionSettings
from compaction_hooks.replay import RecordedSession, Replay, read_sessions, replay
from compaction_hooks.replay import costs as costs_module
from compaction_hooks.replay.bills import Bill
from compaction_hooks.replay.prices import Prices, find_prices
from compaction_hooks.replay.replayed import Totals, total
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.profiles import MODELS, joined, size_of
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

BY_RULE, BY_MODEL = "by rule", "by a model"
DEFAULT, NONE = "default", "none"
LEAST_RATIO = 0.5
"""A joined conversation that fills less of the window says little about it."""
FILLED_RATIO = 0.88
"""The part of the window that joined texts may take: messages weigh more than their text."""
MOST_OF_SOURCE = 2
STRIDE = 4
"""Hindsight may compact before every fourth call: the best times are tens of calls apart."""


# -- the conversations


def join_by_source(folder: Path, window: int) -> Iterator[RecordedSession]:
    """Yield the conversations of each source joined to long ones that just fit the window; without their model."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        joined = [one for one in _join(path, window) if size_of(one) > LEAST_RATIO * window]
        yield from joined[:MOST_OF_SOURCE]


def _join(path: Path, window: int) -> Iterator[RecordedSession]:
    parts: list[RecordedSession] = []
    tokens = 0
    for session in read_sessions(path):
        size = size_of(session)
        if parts and tokens + size > FILLED_RATIO * window:
            yield joined(parts, path.name.partition(".")[0])
            parts, tokens = [], 0
        parts.append(session)
        tokens += size
    if parts:
        yield joined(parts, path.name.partition(".")[0])


# -- the replays


class Task(NamedTuple):
    """One conversation to replay with one threshold: tokens, `DEFAULT` or `NONE`."""

    session: RecordedSession
    window: int
    threshold: int | str
    writer: str


def run(task: Task) -> Replay:
    """Replay one conversation by the prices of all models."""
    logging.disable(logging.CRITICAL)
    if isinstance(task.threshold, int):
        settings = CompactionSettings(trigger_tokens=task.threshold)
    else:
        settings = CompactionSettings(trigger_cap_tokens=None if task.threshold == NONE else "auto")
    with patch.object(costs_module, "EXAMPLES", tuple(map(find_prices, MODELS))):
        summarizer = lossy_summary if task.writer == BY_MODEL else None
        return replay(task.session, window=task.window, settings=settings, summarizer=summarizer)


def dollars_of(one: Replay, place: int, writer: str) -> float:
    """Return what a replay costs by one model's prices."""
    cost = one.costs[place]
    return cost.with_compaction + (cost.summaries if writer == BY_MODEL else 0.0)


# -- the best times


class Tier(NamedTuple):
    """Dollars for a token of one request: read from the cache, new in it, and of the answer."""

    read: float
    new: float
    output: float


class Rates(NamedTuple):
    """A model's prices up to a length of requests, and above it."""

    low: Tier
    high: Tier
    step: int


def rates_of(prices: Prices, window: int) -> Rates:
    """Read a model's rates off the prices of single requests."""

    def tier(size: int) -> Tier:
        read = prices.dollars(Bill(read=size))
        new = prices.dollars(Bill(written=size) if prices.rules.at_marks else Bill(plain=size))
        return Tier(read / size, new / size, prices.dollars(Bill(read=size, output=1)) - read)

    lengths = range(1_000, window + 1_000, 1_000)
    usual = tier(lengths[0])
    step = next((size - 1_000 for size in lengths if tier(size).read > 1.01 * usual.read), window)
    return Rates(usual, tier(window), step)


class Hindsight:
    """The least that the calls of a replay could cost, with compactions at the best times.

    Args:
        view: The tokens of a view after a compaction.
        summaries: The dollars of the replay's summaries, and the tokens that they covered.
    """

    def __init__(self, one: Replay, rates: Rates, view: int, summaries: tuple[float, int]) -> None:
        self._sizes = [call.tokens_without for call in one.calls]
        self._sums = [0, *accumulate(self._sizes)]
        self._output = one.costs[0].sent.output / len(one.calls)
        self._rates, self._view, self._window = rates, view, one.window
        self._paid = summaries[0] / (summaries[1] or 1)

    def least_dollars(self) -> float:
        """Return the price of the calls and of the summaries, if each is made at the best time."""
        count = len(self._sizes)
        starts = range(0, count, STRIDE)
        best = {count: 0.0}
        for start in reversed(starts):
            ends = (end for end in (*range(start + STRIDE, count, STRIDE), count) if end > start)
            best[start] = min(cost + best[end] for end in ends if (cost := self._cost(start, end, count)) is not None)
        return best[0]

    def _cost(self, start: int, end: int, count: int) -> float | None:
        """Return the price of the calls from a compaction to the next, with the summary at the end; None if one does not fit."""
        sizes, rates = self._sizes, self._rates
        base = min(sizes[start], self._view) if start else sizes[0]
        less = sizes[start] - base  # every view of this stretch is so much smaller than the list
        if sizes[end - 1] - less > self._window:
            return None
        dear = min(max(bisect_right(sizes, rates.step + less, start, end), start), end)
        dollars = 0.0
        for tier, first, last in ((rates.low, start, dear), (rates.high, dear, end)):
            if first == last:
                continue
            sent = self._sums[last] - self._sums[first] - less * (last - first)
            new = sizes[last - 1] - (sizes[first - 1] if first > start else sizes[start] - base)
            dollars += (sent - new) * tier.read + new * tier.new + self._output * (last - first) * tier.output
        covered = sizes[end] - less - self._view if end < count else 0
        return dollars + max(covered, 0) * self._paid


def find_hindsight(one: Replay, place: int, writer: str, view: int, rates: Rates) -> float:
    """Return the least dollars by one model's prices."""
    covered = sum(each.tokens_before - each.tokens_after for each in one.compactions)
    summaries = one.costs[place].summaries if writer == BY_MODEL else 0.0
    return Hindsight(one, rates, view, (summaries, covered)).least_dollars()


# -- the tables


def name_of(threshold: int | str) -> str:
    """Return the name of a row."""
    return f"{threshold:,}" if isinstance(threshold, int) else threshold


def cells_of(replays: Sequence[Replay], others: Sequence[Replay], writer: str, rates: Sequence[Rates]) -> Iterator[str]:
    """Yield the cells of one threshold: by model the part of the cost without compaction, and the regret; then names.

    Args:
        others: The replays whose views are taken where nothing was compacted.
    """
    views = [_mean_view(one) or _mean_view(other) for one, other in zip(replays, others, strict=True)]
    regrets: list[float] = []
    for place, rate in enumerate(rates):
        spent = sum(dollars_of(one, place, writer) for one in replays)
        best = sum(find_hindsight(one, place, writer, view, rate) for one, view in zip(replays, views, strict=True))
        regrets.append(100 * (spent / best - 1))
        yield f"{100 * spent / sum(one.costs[place].without_compaction for one in replays):.0f} %"
    yield ", ".join(f"{regret:.0f}" for regret in regrets)
    totals: Totals = total(replays)
    yield f"{totals.compactions / len(replays):.1f}"
    yield f"{mean(views):,.0f}"
    yield f"{totals.used_later - totals.kept:,} of {totals.used_later:,}"
    yield f"{100 * (totals.used_later - totals.kept) / totals.calls:.1f}"
    yield f"{totals.lost_constraints} of {totals.constraints}"


def _mean_view(one: Replay) -> int:
    return round(mean(each.tokens_after for each in one.compactions)) if one.compactions else 0


def main() -> None:
    """Print a table for each writer of summaries."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--window", type=int, default=1_000_000)
    parser.add_argument("--at", type=int, nargs="+", default=[120_000, 200_000, 272_000])
    add_data_options(parser)
    chosen = parser.parse_args()

    sessions = [*join_by_source(chosen.data, chosen.window)]
    rows = [DEFAULT, *chosen.at, NONE]
    rates = [rates_of(prices, chosen.window) for prices in map(find_prices, MODELS) if prices is not None]
    steps = ", ".join(f"{model} {rate.step:,}" for model, rate in zip(MODELS, rates, strict=True))
    print(f"\n{len(sessions)} conversations: {', '.join(one.id for one in sessions)}; prices rise above: {steps}")
    for writer in (BY_RULE, BY_MODEL):
        tasks = [Task(session, chosen.window, row, writer) for row in rows for session in sessions]
        with get_context("spawn").Pool() as pool:
            done = pool.map(run, tasks, chunksize=1)
        columns = [done[start : start + len(sessions)] for start in range(0, len(done), len(sessions))]
        print(f"\nwindow {chosen.window:,}, summaries {writer}, {total(columns[0]).calls:,} calls\n")
        heads = ("above", *MODELS, "regret, %", "compactions", "view", "names lost", "in 100 calls", "constraints lost")
        print_table(
            heads,
            (
                (name_of(row), *cells_of(column, columns[0], writer, rates))
                for row, column in zip(rows, columns, strict=True)
            ),
        )


if __name__ == "__main__":
    main()
