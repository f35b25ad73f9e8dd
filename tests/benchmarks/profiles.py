"""Cost and loss of three profiles of settings, and of single settings: the tables of docs/choosing-settings.md.

    python -m tests.benchmarks.profiles [--windows 32000 128000 200000 1000000] [--data FOLDER | --public]

Replays every conversation that is larger than the earliest trigger of the profiles, with each of them. No single conversation
fills a window of a million tokens: for windows above 500,000, conversations are joined to long ones that just fit. Costs are
parts of those without compaction, in a window that would take it all. Needs genai-prices; no model, no network.
"""

import argparse
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from compaction_hooks import CompactionSettings, ContextOverflowError, Summarizer
from compaction_hooks.replay import RecordedSession, Replay, read_sessions, replay
from compaction_hooks.replay import costs as costs_module
from compaction_hooks.replay.compare import Outcome, summarize
from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.replay.prices import find_prices
from tests.benchmarks.fading import with_own_ids
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.searches import ESTIMATOR, message_text
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

DEFAULT = "default"
FULL = "full window"
"""The row that compacts only where the window ends."""
BY_MODEL = "summaries by a model"
"""The row with the default settings and a simulated model, which loses much; its summaries are paid for."""
MODELS = ("gpt-6.1-sol", "claude-sonnet-5", "gemini-3.1-pro-preview")
"""Models that take a million tokens. The first costs twice as much above 272,000 tokens, the last above 200,000."""
JOINED_FROM = 500_000
JOINED_MOST = 3


def profiles() -> dict[str, CompactionSettings]:
    """Return the profiles besides the default by name, as docs/choosing-settings.md shows them."""
    return {"cheap": CompactionSettings.cheap(), "safe": CompactionSettings.safe()}


def compared() -> dict[str, CompactionSettings]:
    """Return the default settings, the profiles, and changes of one setting, by name."""
    return {
        DEFAULT: CompactionSettings.balanced(),
        **profiles(),
        FULL: CompactionSettings(trigger_cap_tokens=None),
        "no clearing": CompactionSettings(clear_tool_results=False),
        "short answers": CompactionSettings(reserve_tokens=4_000),
        BY_MODEL: CompactionSettings(),
        f"{BY_MODEL}, no clearing": CompactionSettings(clear_tool_results=False),
    }


class Task(NamedTuple):
    """One conversation to replay with one profile."""

    session: RecordedSession
    window: int
    settings: CompactionSettings
    summarizer: Summarizer | None


def run(task: Task) -> Replay | None:
    """Replay one conversation; None if its system prompt or a request fills the window."""
    logging.disable(logging.CRITICAL)
    prices = tuple(map(find_prices, MODELS))
    try:
        with patch.object(costs_module, "EXAMPLES", prices):
            return replay(task.session, window=task.window, settings=task.settings, summarizer=task.summarizer)
    except ContextOverflowError:
        return None


# -- the conversations


def sessions_for(window: int, folder: Path) -> list[RecordedSession]:
    """Return the conversations that are long enough for this window; without their model, so that all have the same prices."""
    read = (session for path in sorted(folder.glob("*.jsonl.gz")) for session in read_sessions(path))
    found = [replace(session, model=None) for session in read]
    if window >= JOINED_FROM:
        return [*join(found, window)]
    least = min(settings.budget(window).trigger for settings in profiles().values())
    return [session for session in found if size_of(session) > least]


def size_of(session: RecordedSession) -> int:
    """Return the tokens of a conversation's texts."""
    return sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in session.messages)


def join(sessions: Iterable[RecordedSession], window: int) -> Iterator[RecordedSession]:
    """Yield conversations of one recording after the other that just fit the window, at most `JOINED_MOST`."""
    most = (
        CompactionSettings(trigger_cap_tokens=None).budget(window).trigger * 0.9
    )  # room for what messages weigh besides their text
    parts: list[RecordedSession] = []
    number = 0
    for session in sessions:
        if parts and sum(map(size_of, (*parts, session))) > most:
            number += 1
            yield joined(parts, f"joined {number}")
            parts = []
        if number == JOINED_MOST:
            return
        parts.append(session)
    if not number:
        yield joined(parts, "joined 1")


def joined(parts: Sequence[RecordedSession], name: str) -> RecordedSession:
    """Return one conversation of several, with the first system prompt, ids of their own, and no model."""
    messages = [
        message
        for place, part in enumerate(parts)
        for message in with_own_ids([dict(message) for message in part.messages], f"{place}")
        if not place or message["role"] != "system"
    ]
    return replace(parts[0], id=name, model=None, messages=tuple(messages), calls=(), compactions=(), probes=())


# -- the tables


def measure(window: int, sessions: Sequence[RecordedSession]) -> dict[str, Outcome]:
    """Return the outcome of each row, on the conversations that fit with all of them."""
    rows = compared()
    tasks = [
        Task(session, window, settings, lossy_summary if name.startswith(BY_MODEL) else None)
        for session in sessions
        for name, settings in rows.items()
    ]
    with get_context("spawn").Pool() as pool:
        done = pool.map(run, tasks, chunksize=1)
    by_session = (done[start : start + len(rows)] for start in range(0, len(done), len(rows)))
    whole = [[each for each in row if each] for row in by_session if all(row)]
    return {name: summarize(name, column) for name, column in zip(rows, zip(*whole, strict=True), strict=True)}


def row_of(name: str, outcome: Outcome, default: Outcome) -> Iterator[object]:
    """Yield the cells of one profile."""
    totals = outcome.totals
    costs = [money.spent + (money.summaries if name.startswith(BY_MODEL) else 0) for money in outcome.money]
    usual = [money.spent for money in default.money]
    yield name
    yield from (f"{100 * cost / money.without:.0f} %" for cost, money in zip(costs, outcome.money, strict=True))
    shares = sorted(round(100 * (cost / other - 1)) for cost, other in zip(costs, usual, strict=True))
    span = f"{shares[0]:+} %" if shares[0] == shares[-1] else f"{shares[0]:+} to {shares[-1]:+} %"
    yield "" if name == DEFAULT else span
    yield f"{totals.compactions / totals.sessions:.1f}"
    yield f"{totals.used_later - totals.kept:,} of {totals.used_later:,}"
    yield f"{100 * (totals.used_later - totals.kept) / totals.calls:.1f}"
    yield f"{totals.lost_constraints} of {totals.constraints}"


def main() -> None:
    """Print a table for each window."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--windows", type=int, nargs="+", default=[32_000, 128_000, 200_000, 1_000_000])
    add_data_options(parser)
    chosen = parser.parse_args()
    unknown = [model for model in MODELS if find_prices(model) is None]
    if unknown:
        parser.error(f"a genai-prices is needed that knows {', '.join(unknown)}")
    columns = ("", *MODELS, "next to the default", "compactions", "names lost", "in 100 calls", "constraints lost")
    for window in chosen.windows:
        outcomes = measure(window, sessions_for(window, chosen.data))
        totals = outcomes[DEFAULT].totals
        print(
            f"\nwindow {window:,}: {pluralize(totals.sessions, 'conversation')}, {totals.calls:,} calls, "
            f"{totals.overflows_without:,} of them over the window without compaction\n"
        )
        print_table(columns, (tuple(row_of(name, outcomes[name], outcomes[DEFAULT])) for name in outcomes))


if __name__ == "__main__":
    main()
