"""Accuracy and speed of the estimate by characters: the tables of docs/figures/tokens.md.

    python -m tests.benchmarks.estimates [--rounds 15] [--data FOLDER | --public]

Needs tiktoken and its rank files (litellm's wheel has them). Tables against providers' counts need recordings that have them: the
public ones have none. Times are the least of all rounds, those that are compared taking turns, of one thread's CPU time.
"""

import argparse
import hashlib
import time
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from compaction_hooks.tiktoken_estimator import TiktokenEstimator
from compaction_hooks.tokens import CharacterEstimator
from tests.benchmarks.tables import print_table
from tests.data import add_data_options, sessions
from tests.token_accuracy import (
    CLASS_TEXTS,
    growths,
    projections,
    projections_after_compaction,
    read,
    text_ratio,
    usage_reports,
)

ESTIMATOR = CharacterEstimator()
ENCODINGS = ("cl100k_base", "o200k_base")
KEPT_TOKENS = (2_000, 8_000)
"""Tokens kept by the compactions: the last step, and a few steps."""
SPEED_KINDS = ("English", "Chinese")
SIZES = (50, 200, 500, 1_000, 2_000, 10_000, 100_000, 1_000_000)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of some values."""
    ordered = sorted(values)
    return ordered[round((len(ordered) - 1) * percent / 100)]


def titled_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"\n{title}\n")
    print_table(columns, rows)


def ratios_table(title: str, found: Mapping[str, Sequence[float]]) -> None:
    """Print the distribution of estimated over counted tokens, and its distance from 1."""
    titled_table(
        title, ("source", "n", "5 %", "median", "95 %", "off by: median", "95 %"), map(ratios_row, found.items())
    )


def ratios_row(found: tuple[str, Sequence[float]]) -> tuple[object, ...]:
    """Return a row of `ratios_table`."""
    source, ratios = found
    off = [abs(ratio - 1) for ratio in ratios]
    spread = (f"{percentile(ratios, percent):.3f}" for percent in (5, 50, 95))
    return source, len(ratios), *spread, f"{percentile(off, 50):.2%}", f"{percentile(off, 95):.2%}"


# -- against tokenizers


def classes_table() -> None:
    """Print each class of text, once and forty times in a row, compared with four characters for a token."""
    rows = [
        (
            kind,
            len(text.text),
            *(f"{ESTIMATOR.estimate_tokens(text.text * times) / text.larger_count / times:.2f}" for times in (1, 40)),
            f"{ESTIMATOR.estimate_tokens(text.text) / text.o200k:.2f}",
            f"{len(text.text) / 4 / text.larger_count:.2f}",
        )
        for kind, text in CLASS_TEXTS.items()
    ]
    columns = ("class", "characters", "estimate", "of 40 times as much", "against o200k_base", "characters / 4")
    titled_table("Classes of text, against the larger of two tokenizers", columns, rows)


def conversations_table(recorded: Sequence[Mapping[str, Any]]) -> None:
    """Print the text of whole conversations against tokenizers, without the overhead of messages."""
    counts = [TiktokenEstimator(encoding).estimate_tokens for encoding in ENCODINGS]
    found: defaultdict[str, list[list[float]]] = defaultdict(list)
    for session in recorded:
        messages = read(session)
        found[session["id"].partition("-")[0]].append(
            [text_ratio(messages, ESTIMATOR.estimate_tokens, count) for count in counts]
        )
    found["all"] = [*chain.from_iterable(found.values())]
    columns = (
        "source",
        "n",
        *(f"{encoding}: {part}" for encoding in ENCODINGS for part in ("least", "median", "most")),
    )
    rows = (
        (
            source,
            len(ratios),
            *(f"{percentile(column, at):.2f}" for column in zip(*ratios, strict=True) for at in (0, 50, 100)),
        )
        for source, ratios in found.items()
    )
    titled_table("Text of whole conversations, against tokenizers", columns, rows)


# -- against what providers counted


def by_source(
    recorded: Iterable[Mapping[str, Any]], measure: Callable[[Mapping[str, Any]], Iterable[float]]
) -> dict[str, list[float]]:
    """Return a measure's figures by source and model; sources with fewer than 20 figures are left out."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for session in recorded:
        model = str(session.get("model")).rpartition("/")[2]
        found[f"{session['id'].partition('-')[0]}, {model}"].extend(measure(session))
    return {source: ratios for source, ratios in sorted(found.items()) if len(ratios) >= 20}


def after_three_reports(session: Mapping[str, Any]) -> Iterator[float]:
    """Yield the projected size over the provider's count for each request, from the fourth of a view on."""
    return (projected.ratio for projected in projections(session) if projected.reports >= 3)


def before_any_report(session: Mapping[str, Any]) -> Iterator[float]:
    """Yield the same for all requests without any reported usage."""
    return (projected.ratio for projected in projections(session, reporting=False))


def after_compaction(session: Mapping[str, Any]) -> Iterator[float]:
    """Yield the projected size over the true size of the first request after compactions at several places."""
    tokenizer = TiktokenEstimator(ENCODINGS[0])
    for kept in KEPT_TOKENS:
        yield from projections_after_compaction(session, tokenizer, keep_tokens=kept)


def provider_tables(recorded: Sequence[Mapping[str, Any]]) -> None:
    """Print the sizes by sessions of the package against the providers' counts."""
    counted = [session for session in recorded if session.get("usage")]
    exact = [session for session in counted if session.get("usage_scope") == "exact"]
    title = "The next request after three usage reports, over the provider's count"
    ratios_table(f"{title} (recorded whole)", by_source(exact, after_three_reports))
    ratios_table(
        f"{title} (with an unknown prefix)", by_source([s for s in counted if s not in exact], after_three_reports)
    )
    ratios_table("The first request after a compaction", by_source(exact, after_compaction))
    ratios_table("Requests before any usage report", by_source(exact, before_any_report))
    ratios_table(
        "Growth by 1,000 estimated tokens or more, before any usage report",
        by_source(counted, lambda session: growths(usage_reports(session, ESTIMATOR))),
    )


# -- speed


def least_microseconds(work: Callable[[str], object], text: str, rounds: int) -> float:
    """Return the least CPU time of one call, of so many rounds of a thousand or fewer calls."""
    times = max(10, 500_000 // len(text))
    return min(timeit.repeat(lambda: work(text), number=times, repeat=rounds, timer=time.thread_time)) / times * 1e6


def speed_table(rounds: int) -> None:
    """Print the time of one estimate by size, and of SHA-256 of the same text."""

    def cells(size: int) -> Iterator[str]:
        for kind in SPEED_KINDS:
            sample = CLASS_TEXTS[kind].text
            text = (sample * (size // len(sample) + 1))[:size]
            estimate = least_microseconds(ESTIMATOR.estimate_tokens, text, rounds)
            digest = least_microseconds(lambda text: hashlib.sha256(text.encode()).digest(), text, rounds)
            yield from (f"{estimate:.2f}", f"{digest:.2f}", f"{estimate / digest:.1f}")

    columns = ("characters", *(f"{kind}: {part}" for kind in SPEED_KINDS for part in ("µs", "SHA-256", "ratio")))
    titled_table("Time of one estimate", columns, ((f"{size:,}", *cells(size)) for size in SIZES))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    add_data_options(parser)
    chosen = parser.parse_args()
    speed_table(chosen.rounds)
    classes_table()
    recorded = list(sessions(folder=chosen.data))
    conversations_table(recorded)
    if any(session.get("usage") for session in recorded):
        provider_tables(recorded)


if __name__ == "__main__":
    main()
