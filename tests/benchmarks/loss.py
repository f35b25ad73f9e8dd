"""The share of a compaction's time that the identifiers in its summary take, and the time to count its loss, in the same unit.

    python -m tests.benchmarks.loss [--data FOLDER] [--windows 64000 200000] [--rounds 3]

Plays conversations call by call: one that is generated, or the recorded ones of a folder. Once with the default summarizer, whose
summaries need none; once with one that answers at once, for their time. Times are processor time, the least of several
alternated rounds, and shares are of the compactions with the default summarizer.
"""

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

from compaction_hooks import CompactionController, CompactionEvent, CompactionFinished
from compaction_hooks.digest import completing
from compaction_hooks.digest.outline import Section
from compaction_hooks.recall import loss_of
from tests.benchmarks.history import Chat, grow
from tests.benchmarks.searches import conversations
from tests.benchmarks.tables import digits, print_table

ANSWER = "\n".join(f"{section.value}\n- Nothing to add." for section in Section)
"""A summary of a model, with all headings of the prompt."""


class Times(NamedTuple):
    """Seconds of all compactions, of counting their losses afterwards, and of the identifiers added in them."""

    compactions: float = 0.0
    loss: float = 0.0
    identifiers: float = 0.0
    number: float = 0


def play(messages: list[Chat], window: int, **more: Any) -> Times:
    """Return the times of a conversation's compactions."""
    finished: list[CompactionFinished] = []

    def take_event(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            finished.append(event)

    hooks = CompactionController(context_window=window, on_event=take_event, **more)
    spent = counting = 0.0
    with _clock(completing, "_fill") as identifiers:
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and index:
                listed, known, start = messages[:index], len(finished), process_time()
                hooks.transform_context_sync(listed)
                end = process_time()
                if any(loss_of(listed, event.record) for event in finished[known:]):
                    spent, counting = spent + end - start, counting + process_time() - end
    return Times(spent, counting, sum(identifiers), len(finished))


@contextmanager
def _clock(module: object, name: str) -> Iterator[list[float]]:
    """Collect the seconds of a function's calls."""
    function: Callable[..., object] = getattr(module, name)
    seconds: list[float] = []

    def timed(*arguments: object) -> object:
        start = process_time()
        found = function(*arguments)
        seconds.append(process_time() - start)
        return found

    with patch.object(module, name, timed):
        yield seconds


def measure(messages: list[Chat], window: int, rounds: int) -> Times:
    """Return the least times of several rounds: compactions and losses by default, the identifiers with an instant summarizer."""
    pairs = [(play(messages, window), play(messages, window, summarizer=lambda _: ANSWER)) for _ in range(rounds)]
    default, instant = (Times(*map(min, zip(*times, strict=True))) for times in zip(*pairs, strict=True))
    return default._replace(identifiers=instant.identifiers)


def print_shares(played: Iterable[list[Chat]], windows: Sequence[int], rounds: int) -> None:
    """Print a row for each window."""
    listed = [*played]
    rows: list[list[object]] = []
    for window in windows:
        total = Times(*map(sum, zip(*(measure(messages, window, rounds) for messages in listed), strict=True)))
        shares = [
            f"{part / total.compactions:.1%}" if total.number else "-" for part in (total.loss, total.identifiers)
        ]
        rows.append(
            [f"{window:,}", f"{total.number:.0f}", digits(total.compactions / max(total.number, 1), 1e-3), *shares]
        )
    print_table(("window", "compactions", "milliseconds each", "loss", "names"), rows)


def main() -> None:
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of recorded conversations, as *.jsonl.gz")
    parser.add_argument("--windows", type=int, nargs="+", default=[200_000])
    parser.add_argument("--messages", type=int, default=4_000, help="length of the generated conversation")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    recorded = (messages for _, messages in conversations(chosen.data, "both")) if chosen.data else None
    print_shares(recorded or [grow(chosen.messages)], chosen.windows, chosen.rounds)


if __name__ == "__main__":
    main()
