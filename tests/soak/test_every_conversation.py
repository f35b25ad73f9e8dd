"""Long runs of every, extreme, generated and many conversations."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crowd import CONVERSATIONS, crowd_with_file, crowd_with_memory
from tests.data import sessions
from tests.faults.harness import SIDES, Chat, Side
from tests.faults.test_extreme_histories import check_many, check_run, large_request, large_result
from tests.invariants import measure_by, run, run_generated
from tests.soak.figures import Figures
from tests.token_accuracy import real_tokenizer

WINDOWS = (8_192, 16_384, 32_768, 131_072)
PARTS = 4
"""The conversations are dealt out to so many tests, which may run in parallel."""

Note = Callable[[str, Figures], None]


def replay(window: int, *, reports_usage: bool, first: int, every: int) -> Figures:
    measure = measure_by(real_tokenizer("cl100k_base").estimate_tokens)
    figures = Figures()
    for record in list(sessions())[first::every]:
        report = run(record, window, measure, reports_usage=reports_usage)
        figures.add(record["id"], report, window)
        figures.add_unfit(record["id"], report)
    return figures


def row(window: int, reports_usage: bool) -> str:
    return f"recorded, {window:,}{', usage reported' if reports_usage else ''}"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("reports_usage", [False, True], ids=["estimated", "usage reported"])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_conversation_keeps_every_promise(
    window: int, reports_usage: bool, part: int, note_figures: Note
) -> None:
    figures = replay(window, reports_usage=reports_usage, first=part, every=PARTS)
    note_figures(row(window, reports_usage), figures)
    assert not figures.examples


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("make", [large_result, large_request], ids=["in a result", "in an old request"])
def test_fifty_megabytes_in_one_message(make: Callable[[int], list[Chat]], side: Side) -> None:
    messages = make(50_000_000)
    started = time.perf_counter()
    check_run(side, "over the window", messages)
    print(f"50 MB in one message, {side}: {time.perf_counter() - started:.1f} s, the checks included")


@pytest.mark.parametrize("side", SIDES)
def test_a_hundred_thousand_messages(side: Side) -> None:
    started = time.perf_counter()
    check_many(side, 100_000)
    print(f"100,000 messages, {side}: {time.perf_counter() - started:.1f} s, the checks included")


HISTORIES = 10_000
PART = 125


@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_every_generated_history_keeps_every_promise(first: int, note_figures: Callable[[str, Figures], None]) -> None:
    rows: dict[str, Figures] = {}
    for seed in range(first, first + PART):
        one = run_generated(seed)
        figures = rows.setdefault(f"generated, {one.kind}, {one.window:,}", Figures())
        figures.add(f"seed {seed}", one.report, one.window)
        if one.kind == "realistic":
            figures.add_unfit(f"seed {seed}", one.report)
    for name, figures in rows.items():
        note_figures(name, figures)
    assert not [example for figures in rows.values() for example in figures.examples]


ROUNDS = 4
CALLS = 150
"""Of each conversation in a round: a call a second, for ten minutes in all."""


@pytest.mark.parametrize("kind", ["fewer sessions in memory than conversations, a file", "more, a store in memory"])
def test_ten_minutes_of_calls_leave_nothing_behind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note_line: Callable[[str], None]
) -> None:
    """Threads, event loops, eviction; what Python objects hold after each round is printed."""
    is_file = kind.endswith("a file")
    monkeypatch.setattr("compaction_hooks.session.controller.MAX_SESSIONS", 32 if is_file else 1_000)
    crowd = crowd_with_file(tmp_path / "records.db") if is_file else crowd_with_memory()
    started = time.perf_counter()
    seen = crowd.run(rounds=ROUNDS, calls=CALLS, length=50)
    held, most = ("/".join(str(size >> 10) for size in sizes) for sizes in (seen.memory, seen.peaks))
    note_line(
        f"{CONVERSATIONS} at once ({kind}): {seen.calls:,} calls, {seen.conversations} conversations, "
        f"{crowd.summarizer.requests:,} summaries, {len(seen.wrong)} wrong; KB held after 25/50/75/100 %: {held}; "
        f"at most in each quarter: {most}; {time.perf_counter() - started:.0f} s"
    )
    assert not seen.wrong
    assert seen.calls == CONVERSATIONS * ROUNDS * CALLS
    assert crowd.summarizer.requests > CONVERSATIONS
    assert seen.memory_growth < 128 * 1024
    assert seen.peak_growth < 0.25
