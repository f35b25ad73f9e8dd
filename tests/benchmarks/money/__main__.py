"""Cost and retention of recorded sessions, without compaction, with ours and with each peer's.

    python -m tests.benchmarks.money [--window 200000 64000] [--quick] [--environments FOLDER]
        [--data FOLDER | --public]

No model, no network. Every conversation of more than half the window is played call by call; `--quick` takes every eighth.
A peer is run by FOLDER/<environment>/bin/python; one without an environment is named and left out. docs/prompt-caches.md has the
method and the results.
"""

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from compaction_hooks.replay.prices import EXAMPLES, Prices
from tests.benchmarks.money.conversations import Conversation, conversations
from tests.benchmarks.money.playing import Score, play
from tests.benchmarks.money.strategies import NOTHING, OURS, VARIANTS, PeerRun, Strategy
from tests.benchmarks.runner import Worker, find_python
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

PEERS: Final = {
    "langchain_fraction": "langchain",
    "langchain_whole": "langchain",
    "langchain_clear": "langchain",
    "langchain_trim": "langchain",
    "deepagents_middleware": "deepagents",
    "langmem_node": "langmem",
    "pydantic_ai_harness_compaction": "harness",
    "summarization_pydantic_ai": "summarization",
    "tunacode_controller": "tunacode",
}
"""Environments by module of tests/benchmarks/peers."""


def _peers(stack: ExitStack, environments: Path) -> Iterator[Strategy]:
    for module, environment in PEERS.items():
        python = find_python(environments, environment)
        if python is None:
            print(f"{module}: no environment, left out", file=sys.stderr)
            continue
        worker = Worker(python, "tests.benchmarks.money.worker", module)
        stack.callback(worker.close)
        yield Strategy(module, partial(PeerRun, worker))


def measure(window: int, played: Sequence[Conversation], strategies: Sequence[Strategy]) -> dict[str, Score]:
    """Return the scores of the conversations with each strategy."""
    scores = {strategy.name: Score() for strategy in strategies}
    for number, conversation in enumerate(played, 1):
        for strategy in strategies:
            scores[strategy.name].add(play(conversation, strategy, window))
        print(f"{window:,}: {number} of {len(played)}", file=sys.stderr)
    return scores


def score_row(name: str, score: Score) -> tuple[object, ...]:
    """Return dollars by model, retention, and the requests with a fault."""
    dollars = (f"${each.dollars(score.bills[each.model]):.2f}" for each in EXAMPLES)
    shares = (f"{score.names_known / max(score.names, 1):.1%}", f"{score.probes_known / max(score.probes, 1):.1%}")
    return name, *dollars, *shares, score.refused, score.broken, score.changes


def find_better(scores: Mapping[str, Score], peers: Sequence[str]) -> Iterator[str]:
    """Yield each peer that is cheaper under some rules and keeps more names without keeping fewer answers, or the reverse.

    Cost is for each answered call. A peer with calls larger than the window, or with broken requests, is not better.
    """
    own = scores[OURS.name]
    for name in peers:
        score = scores[name]
        names = score.names_known / max(score.names, 1) - own.names_known / max(own.names, 1)
        probes = score.probes_known / max(score.probes, 1) - own.probes_known / max(own.probes, 1)
        models = [each.model for each in EXAMPLES if _cost(score, each) < _cost(own, each)]
        if models and min(names, probes) >= 0 < max(names, probes) and not (score.refused or score.broken):
            yield f"{name} is cheaper ({', '.join(models)}) and keeps more than {OURS.name}"


def _cost(score: Score, prices: Prices) -> float:
    return prices.dollars(score.bills[prices.model]) / max(score.calls - score.refused, 1)


def main() -> None:
    """Print a table for each window."""
    # Hide the warnings about conversations whose own request fills the window; the table counts them like others.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=(200_000, 64_000), help="context windows, in tokens")
    parser.add_argument("--quick", action="store_true", help="every eighth conversation")
    parser.add_argument("--environments", type=Path, default=Path(".nox/peers"), help="folder of the environments")
    add_data_options(parser)
    chosen = parser.parse_args()
    columns = ("", *(prices.model for prices in EXAMPLES), "reused", "probes", "refused", "broken", "prefix changes")
    with ExitStack() as stack:
        peers = list(_peers(stack, chosen.environments))
        for window in chosen.window:
            played = list(conversations(chosen.data, window // 2))[:: 8 if chosen.quick else 1]
            scores = measure(window, played, [NOTHING, OURS, *VARIANTS, *peers])
            tokens, calls = sum(each.tokens for each in played), scores[OURS.name].calls
            print(f"\nwindow {window:,}: {len(played)} conversations, {tokens / 1e6:.2f}M tokens, {calls:,} calls\n")
            print_table(columns, (score_row(*item) for item in scores.items()))
            print(*find_better(scores, [peer.name for peer in peers]), sep="\n")


if __name__ == "__main__":
    main()
