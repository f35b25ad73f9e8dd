"""How the parts of a compaction grow with what they read: time, exponent and memory, up to a million tokens.

    python -m tests.benchmarks.scaling [--most 1000000] [--rounds 5]

The first table gives milliseconds (the least of the rounds) for histories of 10,000 tokens and more, and the exponent by which
they grow over the last factor of ten: 0 is constant, 1 linear. The second takes one compaction of 170,000 tokens in a 200k window
apart, the first and the last of a session, with the summariser's own time left out. The third holds the most memory that a
compaction takes at any moment against the length of the transcript that its summariser is shown (tracemalloc). All times are
those of the thread, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeAlias, cast

from compaction_hooks import CompactionController, CompactionSettings, ExtractiveSummarizer, SummaryRequest
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, Known
from compaction_hooks.messages import Message
from compaction_hooks.strategies.cut_point import find_cut
from compaction_hooks.summary.summarizers import summary_request
from compaction_hooks.summary.transcript import transcript
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.view.summary_message import SUMMARY_MARKER
from tests.benchmarks.history import Chat, call_points, grow

ChatMessage: TypeAlias = Mapping[str, object]

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Tokens of the histories, by estimate."""
MESSAGES_PER_TOKEN = 1 / 400
"""More than there are: histories are cut to their size."""
WINDOW = 200_000
LIVE_TOKENS = 170_000
KEPT_TOKENS = 20_000
SUMMARY_TOKENS = 4_096
SUMMARY = "## Goal\nPort the parser.\n\n## Progress\n### Done\n" + "- [x] Read the files, ran the tests\n" * 40
ESTIMATOR = CharacterEstimator()

PARTS = {
    "read and compare the list": ("history.reader.HistoryReader.sync", "history.reader.HistoryReader.verify"),
    "digest chain": ("history.history.History.digest_before",),
    "clearing: which results, and the record": ("strategies.clear_tool_results.ClearToolResults.propose",),
    "cut": ("strategies.cut_point.find_cut",),
    "calls, files, digest": ("files.operations.calls_made", "files.operations.touched_files", "files.digest.digest"),
    "file lists": ("files.tags.file_tags",),
    "the rest of the plan": ("strategies.summary_plan.plan_summary",),
    "request": ("summary.summarizers.summary_request",),
    "transcript, if it is read": ("summary.transcript.transcript",),
    "answer judged": ("engine.summarizing._judged",),
    "record": (
        "strategies.summarize.summary_candidate",
        "view.record.CompactionRecord.to_json",
        "view.record.known_products",
    ),
    "view": ("view.projection.apply_record",),
    "check of the view": ("strategies.check.rejection",),
}
"""The parts of a compaction, as functions below `compaction_hooks`; what one calls of another counts for the other."""


@dataclass
class Stopwatch:
    """Adds up the time spent in each part, without what is spent in other parts."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    inner: list[float] = field(default_factory=list[float])

    def watch(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time taken."""

        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            self.inner.append(0.0)
            start = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                taken = time.thread_time() - start
                self.seconds[part] = self.seconds.get(part, 0.0) + taken - self.inner.pop()
                if self.inner:
                    self.inner[-1] += taken

        return watched


@contextmanager
def watching(watch: Stopwatch) -> Generator[None]:
    """Take the time of all parts, wherever they were imported."""
    changed: list[tuple[Any, str, Any]] = []
    for part, names in PARTS.items():
        for name in names:
            owner, attribute = _owner(name)
            function: Any = cast("dict[str, Any]", vars(owner))[attribute]
            watched = watch.watch(part, function)
            modules = [module for path, module in sys.modules.items() if path.startswith("compaction_hooks")]
            for place in [owner, *modules]:
                if getattr(place, attribute, None) is function:
                    changed.append((place, attribute, function))
                    setattr(place, attribute, watched)
    try:
        yield
    finally:
        for place, attribute, function in changed:
            setattr(place, attribute, function)


def _owner(name: str) -> tuple[Any, str]:
    """The module or class that a function is an attribute of."""
    path, _, attribute = name.rpartition(".")
    module, _, class_name = path.rpartition(".")
    if class_name[:1].isupper():
        return getattr(importlib.import_module(f"compaction_hooks.{module}"), class_name), attribute
    return importlib.import_module(f"compaction_hooks.{path}"), attribute


# -- growth


def history_of(tokens: int) -> History[ChatMessage]:
    """Return a history of about so many tokens, by estimate."""
    reader = HistoryReader(OpenAIChatFormat(), ESTIMATOR.estimate_message_tokens, SUMMARY_MARKER)
    messages = grow(int(tokens * MESSAGES_PER_TOKEN) + 100)
    read = reader.read(messages, Known())
    end = next((count for count in call_points(messages) if read.tokens(0, count) >= tokens), len(messages))
    return reader.read(messages[:end], Known())


def least(function: Callable[[], object], rounds: int) -> float:
    """Return the least milliseconds of several runs."""
    found = math.inf
    for _ in range(rounds):
        gc.collect()
        start = time.thread_time()
        function()
        found = min(found, time.thread_time() - start)
    return found * 1_000


def growth(rounds: int, most: int) -> Iterator[tuple[str, list[float]]]:
    """Yield each part with its milliseconds at each size."""
    histories = [history_of(size) for size in SIZES if size <= most]
    messages = [tuple(piece.message for piece in history.pieces()) for history in histories]
    for name, function in (
        ("transcript, whole", _whole),
        ("transcript, a quarter fits", _bounded),
        ("extractive", _extract),
    ):
        yield name, [least(partial(function, each), rounds) for each in messages]
    yield "cut", [least(partial(_cut, history), rounds) for history in histories]


def _cut(history: History[ChatMessage]) -> object:
    return find_cut(history, after=0, keep_tokens=KEPT_TOKENS, fits=lambda _: True)


def _whole(messages: Sequence[Message]) -> object:
    return transcript(messages, max_tokens=10**9, estimate=ESTIMATOR.estimate_tokens)


def _bounded(messages: Sequence[Message]) -> object:
    tokens = sum(map(ESTIMATOR.estimate_message_tokens, messages))
    return transcript(messages, max_tokens=tokens // 4, estimate=ESTIMATOR.estimate_tokens)


def _extract(messages: Sequence[Message]) -> object:
    request = summary_request(
        messages,
        kind="history",
        previous_summary=None,
        focus=None,
        max_tokens=SUMMARY_TOKENS,
        request_tokens=WINDOW,
        estimate=ESTIMATOR.estimate_tokens,
    )
    return ExtractiveSummarizer()(request)


def exponent(sizes: Sequence[int], figures: Sequence[float]) -> float:
    """Return the exponent of growth over the last factor of ten."""
    start = max(index for index, size in enumerate(sizes) if size * 10 <= sizes[-1])
    return math.log(figures[-1] / figures[start]) / math.log(sizes[-1] / sizes[start])


# -- one compaction


async def compactions(history: Sequence[Chat], *, clears: bool, reads: bool) -> list[tuple[float, dict[str, float]]]:
    """Return the seconds of each call that compacted, the summariser's left out, and those of its parts."""
    shown = 0.0

    async def instant(request: SummaryRequest) -> str:
        nonlocal shown
        start = time.thread_time()
        if reads:
            assert request.prompt
        shown = 0.0 if reads else time.thread_time() - start
        return SUMMARY

    settings = CompactionSettings(clear_tool_results=clears)
    hooks = CompactionController(context_window=WINDOW, summarizer=instant, settings=settings)
    found: list[tuple[float, dict[str, float]]] = []
    for end in call_points(history):
        before = hooks.state().compaction_count
        watch, live = Stopwatch(), list[ChatMessage](history[:end])
        with watching(watch):
            start = time.thread_time()
            await hooks.transform_context(live)
            taken = time.thread_time() - start - shown
        if hooks.state().compaction_count > before:
            found.append((taken, watch.seconds))
    return found


def peak_over_transcript(tokens: int) -> float:
    """Return the most memory of one compaction, over the length of the transcript its summariser reads (one byte a character)."""
    shown = 0

    async def reading(request: SummaryRequest) -> str:
        nonlocal shown
        shown = max(shown, len(request.prompt))  # a split turn is asked about by itself
        return SUMMARY

    settings = CompactionSettings(clear_tool_results=False, auto_compact=False)
    hooks = CompactionController(context_window=tokens, summarizer=reading, settings=settings)
    # What is made once in a process (event loop, regular expressions) is no part of it.
    asyncio.run(hooks.session("before", format=OpenAIChatFormat()).compact([*grow(200)]))
    session, live = hooks.session("measured", format=OpenAIChatFormat()), history_of(tokens).hosts()
    asyncio.run(session.transform_context(live))
    gc.collect()
    tracemalloc.start()
    asyncio.run(session.compact(live))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / shown


# -- tables


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--most", type=int, default=SIZES[-1], help="tokens of the largest history")
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    sizes = [size for size in SIZES if size <= chosen.most]
    print("| ms at tokens | " + " | ".join(f"{size:,}" for size in sizes) + " | exponent |")
    print("|---|" + "---:|" * (len(sizes) + 1))
    for name, figures in growth(chosen.rounds, chosen.most):
        cells = [f"{figure:.2f}" for figure in figures] + [f"{exponent(sizes, figures):.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    for clears, reads in ((False, False), (False, True), (True, False)):
        _print_parts(chosen.rounds, clears=clears, reads=reads)
    print("\n| tokens | peak memory / transcript |\n|---|---:|")
    for size in (size for size in sizes if 30_000 <= size <= 300_000):
        print(f"| {size:,} | {peak_over_transcript(size):.2f} |")


def _print_parts(rounds: int, *, clears: bool, reads: bool) -> None:
    history = grow(2_400)
    runs = [asyncio.run(compactions(history, clears=clears, reads=reads)) for _ in range(rounds)]
    first, last = (min((run[index] for run in runs), key=lambda one: one[0]) for index in (0, -1))
    kind = "results cleared where that is enough" if clears else "always a summary"
    print(f"\n| ms of a compaction, {kind}, transcript {'read' if reads else 'not read'} | 1st | {len(runs[0])}th |")
    print("|---|---:|---:|")
    for part in PARTS:
        print(f"| {part} | {first[1].get(part, 0) * 1_000:.2f} | {last[1].get(part, 0) * 1_000:.2f} |")
    rest = [taken - sum(parts.values()) for taken, parts in (first, last)]
    print(f"| everything else | {rest[0] * 1_000:.2f} | {rest[1] * 1_000:.2f} |")
    print(f"| in all | {first[0] * 1_000:.2f} | {last[0] * 1_000:.2f} |")


if __name__ == "__main__":
    main()
