"""What a call with nothing due costs through each adapter, beside the framework's own hook that does nothing: docs/benchmarks.md.

    python -m tests.benchmarks.adapters [--messages 10000]

One run of a framework makes several model calls on a conversation that is already long. What is told is the
time from one of them to the next: the median of all but the first in several runs, with a hook that does nothing and with ours in
turns. Models answer at once, by the framework's own fake; nothing leaves the process. "Alone" is the median time in the adapter's
function, without what it waits for. Frameworks that are not installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from statistics import median

from tests.benchmarks.adapter_stages import Run, Stage

CALLS = 16
ROUNDS = 5
MOST_TIMES = 3
STAGES = {
    "langgraph": "langchain.langgraph_stages",
    "langchain": "langchain.langchain_stages",
    "pydantic_ai": "pydantic_ai.pydantic_ai_stages",
    "tinyagent": "tinyagent.tinyagent_stages",
    "litellm": "litellm.litellm_stages",
}
"""By the top module of a framework, what makes its stages."""


def stages(framework: str, count: int) -> Iterator[Stage]:
    """Return what is measured of one framework, with a conversation of so many messages."""
    module, _, name = STAGES[framework].partition(".")
    make: Callable[[int], Iterator[Stage]] = getattr(import_module(f"tests.benchmarks.adapter_stages.{module}"), name)
    return make(count)


async def measured(stage: Stage) -> tuple[float, float, float]:
    """Return microseconds of one call: with the framework's hook, with ours, and in ours alone."""
    between: dict[Run, list[float]] = {stage.plain: [], stage.ours: []}
    spent: list[float] = []
    for _ in range(ROUNDS):
        for run, times in between.items():
            stage.watch.calls.clear()
            stage.watch.spent.clear()
            gc.collect()
            await run(CALLS)
            calls = stage.watch.calls
            times += [later - earlier for earlier, later in pairwise(calls[1:])]
        spent += stage.watch.spent[1:]
    return median(between[stage.plain]) * 1e6, median(between[stage.ours]) * 1e6, median(spent) * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--only", choices=STAGES, nargs="*", default=[name for name in STAGES if find_spec(name)])
    given = parser.parse_args()
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it would be downloaded
    print("| a call with nothing due, us | framework's no-op hook | ours | times | ours alone | met |")
    print("|---|--:|--:|--:|--:|---|")
    for framework in given.only:
        for stage in stages(framework, given.messages):
            plain, ours, alone = asyncio.run(measured(stage))
            met = "yes" if ours <= MOST_TIMES * plain else "NO"
            print(
                f"| {stage.name} | {plain:,.0f} | {ours:,.0f} | {ours / plain:.2f} | {alone:,.0f} | {met} |", flush=True
            )


if __name__ == "__main__":
    main()
