"""Cost and retention of recorded sessions, without compaction, with ours and with each peer's.

    python -m tests.benchmarks.money [--window 200000 64000] [--quick] [--environments FOLDER]

Needs the recordings next to the checkout (`../shared/data`); no model, no network. Every conversation of more than half the
window is played call by call; `--quick` takes every eighth. A peer is run by FOLDER/<environment>/bin/python, or by this Python
if the folder is missing and the package is installed here; a peer that cannot be run is named and left out.
Takes about six minutes on a free machine, half of it in peers. docs/prompt-caches.md has the method and the results.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.money.conversations import Conversation, conversations
from tests.benchmarks.money.playing import Score, play
from tests.benchmarks.money.report import better, price_table, score_table
from tests.benchmarks.money.strategies import NOTHING, OURS, VARIANTS, Strategy
from tests.benchmarks.money.workers import peer

WINDOWS: Final = (200_000, 64_000)
QUICK: Final = 8


class PeerPlan(NamedTuple):
    """A peer: its name in the table, its environment, its package, its worker with arguments."""

    name: str
    environment: str
    package: str
    module: str
    arguments: tuple[str, ...] = ()


PEERS: Final = (
    PeerPlan("LangChain", "langchain", "langchain", "langchain_worker", ("summarization",)),
    PeerPlan(
        "LangChain, keeps 10 %, whole text", "langchain", "langchain", "langchain_worker", ("summarization-whole",)
    ),
    PeerPlan("LangChain ClearToolUsesEdit", "langchain", "langchain", "langchain_worker", ("clear-tool-uses",)),
    PeerPlan("LangChain trim_messages", "langchain", "langchain", "langchain_worker", ("trim",)),
    PeerPlan("deepagents", "deepagents", "deepagents", "deepagents_worker"),
    PeerPlan("langmem", "langmem", "langmem", "shared_worker", ("langmem_node",)),
    PeerPlan(
        "pydantic-ai-harness", "harness", "pydantic_ai_harness", "shared_worker", ("pydantic_ai_harness_compaction",)
    ),
    PeerPlan(
        "summarization-pydantic-ai",
        "summarization",
        "pydantic_ai_summarization",
        "shared_worker",
        ("summarization_pydantic_ai",),
    ),
    PeerPlan("tunacode-cli", "tunacode", "tunacode", "shared_worker", ("tunacode_controller",)),
)


def _runnable(plans: Sequence[PeerPlan], folder: Path | None) -> Iterator[tuple[str, AbstractContextManager[Strategy]]]:
    for plan in plans:
        own = folder / plan.environment / "bin" / "python" if folder else None
        if own is not None and own.exists() and _has(own, plan.package):
            yield plan.name, peer(plan.name, str(own), plan.module, *plan.arguments)
        elif find_spec(plan.package) is not None:
            yield plan.name, peer(plan.name, sys.executable, plan.module, *plan.arguments)
        else:
            print(f"{plan.name}: {plan.package} is not installed, left out", file=sys.stderr)


def _has(python: Path, package: str) -> bool:
    """Whether another Python can import a package."""
    return subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0


def measure(window: int, played: Sequence[Conversation], strategies: Sequence[Strategy]) -> dict[str, Score]:
    """Return the scores of the conversations with each strategy."""
    scores = {strategy.name: Score() for strategy in strategies}
    for number, conversation in enumerate(played, 1):
        for strategy in strategies:
            scores[strategy.name].add(play(conversation, strategy, window))
        print(f"{window:,}: {number} of {len(played)}", file=sys.stderr)
    return scores


def main() -> None:
    """Print the tables."""
    # Hide the warnings about conversations whose own request fills the window; the table counts them like others.
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=WINDOWS, help="context windows, in tokens")
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK}th conversation")
    parser.add_argument("--environments", type=Path, help="a folder with an environment for each peer")
    arguments = parser.parse_args()
    print(*price_table(), sep="\n")
    with ExitStack() as stack:
        peers = {name: stack.enter_context(each) for name, each in _runnable(PEERS, arguments.environments)}
        for window in arguments.window:
            _report(window, [NOTHING, OURS, *VARIANTS, *peers.values()], list(peers), QUICK if arguments.quick else 1)


def _report(window: int, strategies: Sequence[Strategy], peers: list[str], every: int) -> None:
    played = list(conversations(window // 2))[::every]
    scores = measure(window, played, strategies)
    tokens, calls = sum(each.tokens for each in played), scores[OURS.name].calls
    print(f"\nwindow {window:,}: {len(played)} conversations, {tokens / 1e6:.2f}M tokens, {calls:,} calls\n")
    print(*score_table(scores), sep="\n")
    for line in better(scores, OURS.name, peers):
        print(f"\n{line}")


if __name__ == "__main__":
    main()
