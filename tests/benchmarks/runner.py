"""Run of ours and its peers, each in a process and an environment of its own, with the tables explained in docs/benchmarks.md.

    nox -s benchmark [-- --quick] [-- --only strands langchain]

All peers get the same history, the same instant summarizer and the same tasks, in turns, for several rounds; the figures are
medians. The nox session makes the environments; a peer without one is left out, and the page names it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compaction_hooks.installed import package_folder
from tests.benchmarks import report
from tests.benchmarks.counting import Counter
from tests.benchmarks.figures import FLOOR, OURS, Figures, Run
from tests.benchmarks.history import call_points, grow
from tests.benchmarks.recorded import longest_sessions

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
    "langchain_trim": "langchain",
    "litellm_trim": "litellm",
}
"""Environments by module of tests/benchmarks/peers, named as the dependency group without "peer-"; "" is this environment."""
FIRST_LARGE = 30_000
"""Number of live messages at which only ours and the floor are timed, since peers take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a run."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 30_000)
    messages: int = 10_000
    window: int = 200_000
    recorded_window: int = 64_000
    idle_rounds: int = 3
    session_rounds: int = 3
    recorded_sessions: int = 3


QUICK = Plan(sizes=(100, 1_000), messages=1_500, idle_rounds=2, session_rounds=2, recorded_sessions=1)


class Worker:
    """A peer in its own process."""

    def __init__(self, module: str, python: str) -> None:
        command = [python, "-m", f"tests.benchmarks.peers.{module}"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=_environment())
        self.about: dict[str, Any] = self.do("about")
        self.name: str = self.about["name"]

    def do(self, task: str, **arguments: object) -> Any:
        """Return the answer to a task.

        Raises:
            RuntimeError: the process ended; its message is on the standard error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"task": task, **arguments}) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args!r} ended while it was asked to {task} {arguments}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def usages(self) -> tuple[bool, ...]:
        """Return False, and True if reported usage makes a difference for this peer."""
        return (False, True) if self.about["usage"] else (False,)


class Measurement:
    """All tasks of all workers, in turns; figures can be saved after each stage."""

    def __init__(self, plan: Plan, workers: list[Worker], run: Run, save: Path | None) -> None:
        self._plan = plan
        self._workers = workers
        self._players = [worker for worker in workers if worker.about["sessions"]]
        self._run = run
        self._save = save
        self._found = {(w.name, usage): Figures(w.name, usage) for w in workers for usage in w.usages()}
        run.figures = list(self._found.values())
        run.peers = {worker.name: worker.about for worker in workers}

    def measure(self) -> None:
        """Do all tasks; peak memory is last, as it takes longest."""
        for messages in self._plan.sizes:
            self._idle(messages)
        for usage in (False, True):
            self._session(usage)
        self._recordings()
        for usage in (False, True):
            self._peak(usage)

    def _idle(self, messages: int) -> None:
        for _, worker, usage in _turns(self._plan.idle_rounds, self._workers):
            if messages < FIRST_LARGE or worker.name in (OURS, FLOOR):
                seconds = worker.do("idle", messages=messages, usage=usage)
                self._found[worker.name, usage].idle.setdefault(messages, []).append(seconds)
        self._done(f"one call at {messages:,} messages")

    def _session(self, usage: bool) -> None:
        task = self._session_task(usage)
        for _, worker, _ in _turns(1, self._players, usages=(usage,)):
            self._found[worker.name, usage].sent = worker.do("count", **task)
        for number, worker, _ in _turns(self._plan.session_rounds, self._players, usages=(usage,)):
            if number == 0 or not worker.about["sampled"]:  # a sample takes so long that one round is enough
                self._found[worker.name, usage].spent.append(worker.do("clock", **task))
        self._done(f"session {'with' if usage else 'without'} usage")

    def _recordings(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, messages in longest_sessions(self._plan.recorded_sessions):
                self._run.recorded[name] = len(messages)
                path = Path(folder) / f"{len(self._run.recorded)}.json"
                path.write_text(json.dumps(messages), encoding="utf-8")
                # Without usage: the recorded counts are of other contexts than these.
                task = {
                    "source": str(path),
                    "messages": len(messages),
                    "window": self._plan.recorded_window,
                    "usage": False,
                }
                for worker in self._players:
                    figures = worker.do("count", **task), worker.do("clock", **task)
                    self._found[worker.name, False].recorded[name] = figures
                self._done(f"recorded session: {name}")

    def _peak(self, usage: bool) -> None:
        for _, worker, _ in _turns(1, self._players, usages=(usage,)):
            if not worker.about["sampled"]:  # a sampled peer keeps nothing between calls
                self._found[worker.name, usage].peak = worker.do("peak", **self._session_task(usage))
        self._done(f"memory {'with' if usage else 'without'} usage")

    def _session_task(self, usage: bool) -> dict[str, object]:
        return {"source": "", "messages": self._plan.messages, "window": self._plan.window, "usage": usage}

    def _done(self, stage: str) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S}  {stage}", file=sys.stderr, flush=True)
        if self._save:
            self._run.save(self._save)


def _turns(
    rounds: int, workers: Iterable[Worker], usages: tuple[bool, ...] = (False, True)
) -> Iterator[tuple[int, Worker, bool]]:
    """Yield every worker in every round, so that temporary load on the machine slows all of them."""
    for number in range(rounds):
        for worker in workers:
            yield from ((number, worker, usage) for usage in worker.usages() if usage in usages)


def _environment() -> dict[str, str]:
    """Return the environment variables of a worker: the folder of the tokenizer's ranks, and no use of the network."""
    folder = package_folder("litellm")
    ranks = {"TIKTOKEN_CACHE_DIR": str(folder / "litellm_core_utils" / "tokenizers")} if folder else {}
    return os.environ | ranks | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONHASHSEED": "0"}


def _python(environments: Path, name: str) -> str | None:
    if not name:
        return sys.executable
    python = environments / name / "bin" / "python"
    return str(python) if python.exists() else None


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _new_run(plan: Plan, command: str) -> Run:
    history = grow(plan.messages)
    return Run(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        command=command,
        messages=len(history),
        tokens=Counter().request_tokens(history),
        calls=len(call_points(history)),
        window=plan.window,
        recorded_window=plan.recorded_window,
    )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--environments", type=Path, default=Path(".nox/peers"), help="folder of the peers' environments"
    )
    parser.add_argument("--quick", action="store_true", help="a short run")
    parser.add_argument(
        "--only", nargs="+", default=list(PEERS), choices=PEERS, help="modules in tests/benchmarks/peers"
    )
    parser.add_argument("--save", type=Path, help="keep the figures in this file, for tests.benchmarks.report")
    chosen = parser.parse_args()
    plan = QUICK if chosen.quick else Plan()
    run = _new_run(plan, "nox -s benchmark" + (" -- --quick" if chosen.quick else ""))
    with ExitStack() as stack:
        workers: list[Worker] = []
        for module in chosen.only:
            python = _python(chosen.environments, PEERS[module])
            if python is None:
                run.missing.append(module)
                continue
            workers.append(Worker(module, python))
            stack.callback(workers[-1].close)
        Measurement(plan, workers, run, chosen.save).measure()
    print(report.page(run))


if __name__ == "__main__":
    main()
