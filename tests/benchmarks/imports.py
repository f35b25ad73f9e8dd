"""Milliseconds that importing the package adds to a program.

    python -m tests.benchmarks.imports [--rounds 15]

Every figure is the CPU time of fresh processes with warm bytecode, as in an installed package; the programs take turns. Each
program first imports its other dependencies, then ours, and only ours is timed. Earlier objects are frozen, since a full garbage
collection of a framework's objects would otherwise happen in one import or another by chance. Frameworks that are not installed
are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_MILLISECONDS = 30
CHILD = """
import gc, time
start = time.process_time()
{before}
between = time.process_time()
gc.collect()
gc.freeze()
begin = time.process_time()
{ours}
print(between - start, time.process_time() - begin)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that imports ours after its other dependencies.

    Attributes:
        needs: The top module of its framework; without it the program is left out.
        before: Imports of its other dependencies.
        ours: Imports of ours.
    """

    name: str
    needs: str
    before: str
    ours: str

    def run(self, environment: Mapping[str, str]) -> tuple[float, float]:
        """Run it once and return the milliseconds of its other imports and of ours."""
        child = [sys.executable, "-c", CHILD.format(before=self.before, ours=self.ours)]
        done = subprocess.run(child, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        before, ours = map(float, done.stdout.split())
        return before * 1_000, ours * 1_000


PROGRAMS = (
    Program(
        name="compaction_hooks",
        needs="json",
        before="import dataclasses, json, logging, re, hashlib, threading",
        ours="from compaction_hooks import CompactionController",
    ),
    Program(
        name="compaction_adapters.langgraph",
        needs="langgraph",
        before="from langchain_core.language_models import BaseChatModel; from langgraph.graph import MessagesState, StateGraph",
        ours="from compaction_adapters.langgraph import CompactionNode",
    ),
    Program(
        name="compaction_adapters.langchain",
        needs="langchain",
        before="from langchain.agents import create_agent; from langchain.agents.middleware import AgentMiddleware",
        ours="from compaction_adapters.langchain import CompactionMiddleware",
    ),
    Program(
        name="compaction_adapters.pydantic_ai",
        needs="pydantic_ai",
        before="from pydantic_ai import Agent",
        ours="from compaction_adapters.pydantic_ai import Compaction",
    ),
    Program(
        name="compaction_adapters.litellm",
        needs="litellm",
        before="from litellm import acompletion",
        ours="from compaction_adapters.litellm import with_compaction",
    ),
    Program(
        name="compaction_adapters.tinyagent",
        needs="tinyagent",
        before="from tinyagent import Agent",
        ours="from compaction_adapters.tinyagent import compaction_hook",
    ),
)


def run_programs(rounds: int) -> dict[Program, list[tuple[float, float]]]:
    """Run every installed program `rounds` times, in turns; the first extra round only writes the bytecode."""
    programs = [program for program in PROGRAMS if find_spec(program.needs)]
    found: defaultdict[Program, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": bytecode, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        for number in range(rounds + 1):
            for program in programs:
                times = program.run(environment)
                if number:
                    found[program].append(times)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    print("| import | after what takes | adds, least | adds, median | at most | met |\n|---|--:|--:|--:|--:|---|")
    for program, times in run_programs(parser.parse_args().rounds).items():
        before = statistics.median(before for before, _ in times)
        ours = statistics.median(ours for _, ours in times)
        least = min(ours for _, ours in times)
        met = "yes" if ours <= MOST_MILLISECONDS else "NO"
        print(
            f"| `{program.name}` | {before:,.0f} ms | {least:.1f} ms | {ours:.1f} ms | {MOST_MILLISECONDS} ms | {met} |"
        )


if __name__ == "__main__":
    main()
