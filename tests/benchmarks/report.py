"""The tables of a run; docs/benchmarks.md explains them.

    python -m tests.benchmarks.report FIGURES.json

The figures are written by `tests.benchmarks.runner --save`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

from tests.benchmarks.figures import FLOOR, OURS, Figures, Run, load

SLOPE = (1_000, 10_000)
"""Growth is measured between these numbers of live messages."""
HEAD = """\
# What a call costs, beside peers

Measured on {date} by `{command}`
({machine}).

Every peer runs in a process and an environment of its own, on the same history, with the same summariser, which answers at once.
They take turns, and the figures are medians over the rounds. Times are processor time in the peer's own code before a model call,
on messages that its host has made already; compare within a table.

The history is made by [tests/benchmarks/history.py](tests/benchmarks/history.py): {messages:,} messages, {tokens:,} tokens
(cl100k), {calls:,} model calls; tool rounds of up to four calls, one result in ten large. The floor is the least that a hook can
do, [tests/benchmarks/floor.py](tests/benchmarks/floor.py): it adds up the sizes of new messages, compares the live ones once,
and has no features.
"""
IDLE = """\
## A call when nothing is due

Microseconds of one call with the messages that an agent adds, by live messages, in a window that nothing fills. Growth is the
exponent from {low:,} to {high:,} messages: 0 is constant, 1 is linear. With usage: each answer carries what the provider counted;
peers without such a row do not read it.
"""
SESSION = """\
## A whole session in a window of {window:,} tokens, {usage} reported usage

All {calls:,} calls of {messages:,} messages. Over: contexts larger than the window, counted with a real tokenizer (cl100k). Broken:
contexts with a tool call without its result, or the other way round. One compaction: the median call that made one. Memory: the
most that was held at once beyond the messages themselves (tracemalloc, in a run of its own). Late: the median of the last hundred
calls.
"""
SAMPLED = """\
langchain-core's `trim_messages` was given about {sampled} of the calls, and its total is reckoned from them. LiteLLM's is not
here: once the window is full, it counts what it keeps anew for every older message, which takes minutes a call.
"""
RECORDED = """\
## Recorded sessions in a window of {window:,} tokens

The longest one of each of these agents, call by call, without usage. Milliseconds in all / contexts over the window / broken / mean
tokens sent.
"""


def page(run: Run) -> str:
    """Return the whole page."""
    parts = (
        [HEAD.format(**vars(run))],
        _ratios(run),
        _idle(run),
        *(_session(run, usage=usage) for usage in (False, True)),
        _recordings(run),
        _peers(run),
    )
    return "\n".join(line for part in parts for line in part)


def _ratios(run: Run) -> Iterator[str]:
    """Yield ours over others, for figures with a goal."""
    yield "## Ours over others\n"
    yield "| | without usage | with usage |\n|---|--:|--:|"
    for size in run.sizes():
        yield _ratio_row(run, f"one call at {size:,} live messages, over the floor", FLOOR, _idle_at(size))
    for peer in ("strands", "pydantic-ai-harness", "LangChain"):
        yield _ratio_row(run, f"the whole session, over {peer}", peer, Figures.total_seconds)
    yield _ratio_row(run, "one compaction, over LangChain's", "LangChain", Figures.compaction_seconds)
    yield ""


def _ratio_row(run: Run, title: str, peer: str, measure: Callable[[Figures], float | None]) -> str:
    cells: list[str] = []
    for usage in (False, True):
        found = (run.of(name, usage=usage) for name in (OURS, peer))
        pair = [measure(figures) if figures and figures.spent else None for figures in found]
        cells.append(f"{pair[0] / pair[1]:.2g}" if pair[0] and pair[1] else "-")
    return f"| {title} | {' | '.join(cells)} |"


def _idle_at(size: int) -> Callable[[Figures], float | None]:
    return lambda found: found.idle_seconds(size)


def _idle(run: Run) -> Iterator[str]:
    sizes = run.sizes()
    yield IDLE.format(low=SLOPE[0], high=SLOPE[1])
    yield f"| | {' | '.join(f'{size:,}' for size in sizes)} | growth |\n|---|{'--:|' * (len(sizes) + 1)}"
    last = max(size for size in sizes if all(size in found.idle for found in run.figures))
    for found in sorted(run.figures, key=lambda found: found.idle_seconds(last) or 0):
        growth = found.growth(*SLOPE)
        cells = [_micros(found.idle_seconds(size)) for size in sizes]
        yield f"| {_title(found)} | {' | '.join(cells)} | {'-' if growth is None else f'{growth:.2f}'} |"
    yield ""


def _session(run: Run, *, usage: bool) -> Iterator[str]:
    yield SESSION.format(**vars(run), usage="with" if usage else "without")
    yield "| | seconds | one compaction, ms | late, us | compactions | over | broken | mean tokens sent | memory, MB |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for found in run.by_total(usage=usage):
        sent = found.sent
        sampled = run.peers[found.peer]["sampled"]
        of = f" of {sent['calls']}" if sampled else ""
        compaction = None if sampled else found.compaction_seconds()
        cells = (
            _significant(found.total_seconds()),
            _significant(compaction and compaction * 1e3),
            _micros(median(spent["last"] for spent in found.spent)),
            "-" if sampled else str(sent["compactions"]),
            f"{sent['over']}{of}",
            f"{sent['broken']}{of}",
            f"{sent['mean_tokens']:,.0f}",
            _significant(found.peak and found.peak / 1e6),
        )
        yield f"| {_bold(found.peer)} | {' | '.join(cells)} |"
    yield ""
    sampled = [about["sampled"] for about in run.peers.values() if about["sampled"]]
    if sampled and not usage:
        yield SAMPLED.format(sampled=sampled[0])


def _recordings(run: Run) -> Iterator[str]:
    if not run.recorded:
        return
    yield RECORDED.format(window=run.recorded_window)
    yield f"| | {' | '.join(f'{name}, {messages:,} messages' for name, messages in run.recorded.items())} |"
    yield f"|---|{'--:|' * len(run.recorded)}"
    for found in run.by_total(usage=False):
        cells = (
            f"{_significant(spent['total'] * 1e3)} / {sent['over']} / {sent['broken']} / {sent['mean_tokens']:,.0f}"
            for sent, spent in found.recorded.values()
        )
        yield f"| {_bold(found.peer)} | {' | '.join(cells)} |"
    yield ""


def _peers(run: Run) -> Iterator[str]:
    yield "## Who runs how\n"
    yield "| | versions | set up as |\n|---|---|---|"
    for name, about in run.peers.items():
        versions = ", ".join(f"{package} {version}" for package, version in about["versions"].items())
        yield f"| {name} | {versions} | {about['settings']} |"
    if run.missing:
        yield f"\nNot run, for they could not be installed: {', '.join(run.missing)}."


def _title(found: Figures) -> str:
    return _bold(found.peer) + (", with usage" if found.usage else "")


def _bold(peer: str) -> str:
    return f"**{peer}**" if peer == OURS else peer


def _micros(seconds: float | None) -> str:
    return _significant(seconds and seconds * 1e6)


def _significant(value: float | None) -> str:
    """Return three digits, or all digits of a whole number."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Iterable[str]) -> None:
    """Print the page of each file of figures."""
    for argument in arguments:
        print(page(load(Path(argument))))


if __name__ == "__main__":
    main(sys.argv[1:])
