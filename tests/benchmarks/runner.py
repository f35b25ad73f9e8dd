"""Time of ours and of its peers, and the sizes of their requests: the tables that docs/benchmarks.md explains.

    nox -s benchmark [-- --quick] [-- --only ours langchain_middleware]

Each peer runs in a process and an environment of its own, on the same history, with the same instant summarizer; they take turns,
for several rounds, and the figures are medians. The nox session makes the environments; a peer without one is left out.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from compaction_hooks.tokens.windows import package_folder
from tests.benchmarks.tables import digits, print_table

PEERS = {
    "ours": "",
    "reference_floor": "",
    "strands_manager": "strands",
    "pydantic_ai_harness_compaction": "harness",
    "summarization_pydantic_ai": "summarization",
    "langchain_middleware": "langchain",
    "deepagents_middleware": "deepagents",
    "langmem_node": "langmem",
    "tunacode_controller": "tunacode",
}
"""Environments by module of tests/benchmarks/peers, named as the dependency group without "peer-"; "" is this environment."""
OURS, FLOOR = "compaction-hooks", "floor"
FIRST_LARGE = 30_000
"""Number of live messages at which only ours and the floor are timed, since peers take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a run."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 30_000)
    messages: int = 10_000
    window: int = 200_000
    rounds: int = 3


QUICK = Plan(sizes=(100, 1_000), messages=1_500, rounds=2)


class Worker:
    """A peer in its own process."""

    def __init__(
        self,
        python: Path | str,
        *arguments: str,
        folder: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        command, variables = [str(python), "-m", *arguments], {**environment, **_worker_variables()}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=folder, env=variables)

    def ask(self, question: object) -> Any:
        """Return the answer to a line of JSON.

        Raises:
            RuntimeError: the process ended; its message is on the standard error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args!r} ended while it was asked {str(question)[:200]}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _worker_variables() -> dict[str, str]:
    """Return a worker's own environment variables: the folder of the tokenizer's ranks, and no use of the network."""
    folder = package_folder("litellm")
    ranks = {"TIKTOKEN_CACHE_DIR": str(folder / "litellm_core_utils" / "tokenizers")} if folder else {}
    return ranks | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONHASHSEED": "0"}


def find_python(environments: Path, name: str) -> Path | None:
    """Return the Python of a peer's environment; None if there is none."""
    python = environments / name / "bin" / "python" if name else Path(sys.executable)
    return python if python.exists() else None


@dataclass(slots=True)
class Figures:
    """One peer's figures, with or without reported usage.

    Attributes:
        idle: Seconds of one call when nothing is due, of each round, by the number of live messages.
        sent: Its requests in the whole session, as `scenarios.Sent`.
        spent: Their times, as `scenarios.Spent`, of each round.
    """

    peer: str
    worker: Worker
    usage: bool
    idle: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    sent: dict[str, Any] = field(default_factory=dict[str, Any])
    spent: list[dict[str, float | None]] = field(default_factory=list[dict[str, float | None]])

    @property
    def title(self) -> str:
        return self.peer + (", with usage" if self.usage else "")

    def idle_seconds(self, messages: int) -> float | None:
        """Return the median over the rounds."""
        return median(self.idle[messages]) if messages in self.idle else None

    def seconds(self, kind: str) -> float | None:
        """Return the median over the rounds of "total" or "compaction"; None if nothing was compacted."""
        found = [seconds for spent in self.spent if (seconds := spent[kind]) is not None]
        return median(found) if found else None


def measure(plan: Plan, found: list[Figures]) -> None:
    """Do all tasks in turns, so that temporary load on the machine slows all peers."""
    for messages in plan.sizes:
        for each in found * plan.rounds:
            if messages < FIRST_LARGE or each.peer in (OURS, FLOOR):
                seconds = each.worker.ask({"task": "idle", "messages": messages, "usage": each.usage})
                each.idle.setdefault(messages, []).append(seconds)
    for usage in (False, True):
        session = {"messages": plan.messages, "window": plan.window, "usage": usage}
        with_usage = [each for each in found if each.usage is usage]
        for each in with_usage:
            each.sent = each.worker.ask({"task": "count", **session})
        for each in with_usage * plan.rounds:
            each.spent.append(each.worker.ask({"task": "clock", **session}))


def print_tables(plan: Plan, found: list[Figures]) -> None:
    """Print ours over others, single calls, and whole sessions."""
    print("\n## Ours over others\n")
    print_table(("", "without usage", "with usage"), _ratios(plan, found))
    print("\n## A call when nothing is due, in microseconds, by live messages\n")
    rows = ((each.title, *(digits(each.idle_seconds(size), 1e-6) for size in plan.sizes)) for each in found)
    print_table(("", *(f"{size:,}" for size in plan.sizes)), rows)
    print(f"\n## A session of {plan.messages:,} messages in a window of {plan.window:,} tokens\n")
    columns = ("", "seconds", "one compaction, ms", "calls", "compactions", "over", "broken", "mean tokens sent")
    by_total = sorted(found, key=lambda each: (each.usage, each.seconds("total") or 0))
    print_table(columns, map(_session_row, by_total))


def _session_row(found: Figures) -> tuple[str, ...]:
    counts = (f"{found.sent[kind]:,.0f}" for kind in ("calls", "compactions", "over", "broken", "mean_tokens"))
    return found.title, digits(found.seconds("total")), digits(found.seconds("compaction"), 1e-3), *counts


def _ratios(plan: Plan, found: list[Figures]) -> Iterator[tuple[str, str, str]]:
    by_name = {(each.peer, each.usage): each for each in found}

    def row(title: str, peer: str, seconds: Callable[[Figures], float | None]) -> tuple[str, str, str]:
        cells: list[str] = []
        for usage in (False, True):
            pair = [by_name.get((name, usage)) for name in (OURS, peer)]
            ours, other = (each and seconds(each) for each in pair)
            cells.append(f"{ours / other:.2g}" if ours and other else "-")
        return title, cells[0], cells[1]

    for size in plan.sizes:
        seconds = partial(Figures.idle_seconds, messages=size)
        yield row(f"one call at {size:,} messages, over the floor", FLOOR, seconds)
    for peer in ("strands", "pydantic-ai-harness", "LangChain"):
        yield row(f"the whole session, over {peer}", peer, lambda each: each.seconds("total"))
    yield row("one compaction, over LangChain's", "LangChain", lambda each: each.seconds("compaction"))


def _start(stack: ExitStack, modules: Iterable[str], environments: Path) -> Iterator[Figures]:
    for module in modules:
        python = find_python(environments, PEERS[module])
        if python is None:
            print(f"{module}: no environment, left out")
            continue
        worker = Worker(python, "tests.benchmarks.peers.worker", module)
        stack.callback(worker.close)
        about = worker.ask({"task": "about"})
        print(", ".join([about["name"], *(f"{name} {version}" for name, version in about["versions"].items())]))
        for usage in (False, True) if about["usage"] else (False,):
            yield Figures(about["name"], worker, usage)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, default=Path(".nox/peers"), help="folder of the environments")
    parser.add_argument("--quick", action="store_true", help="a short run")
    parser.add_argument("--only", nargs="+", default=list(PEERS), choices=PEERS, help="modules of peers")
    chosen = parser.parse_args()
    plan = QUICK if chosen.quick else Plan()
    with ExitStack() as stack:
        found = list(_start(stack, chosen.only, chosen.environments))
        measure(plan, found)
    print_tables(plan, found)


if __name__ == "__main__":
    main()
