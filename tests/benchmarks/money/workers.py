"""Peers as strategies: a process in each peer's environment, called for each request (protocol: `peers.serving`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from compaction_hooks import ContextOverflowError, Usage
from tests.benchmarks.money.strategies import Run, Strategy, SummaryCall
from tests.benchmarks.money.wire import Chat, tokens_of

_ROOT: Final = Path(__file__).resolve().parents[3]


class _Peer:
    """One conversation with a worker."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.summaries: list[SummaryCall] = []
        self._process = process
        self._seen = 0
        self._usage: tuple[int, int] | None = None
        self._made: dict[str, Chat] = {}

    def send(self, history: list[Chat]) -> Sequence[Chat]:
        answer = ask(self._process, {"new": history[self._seen :], "usage": self._usage})
        self._seen, self._usage = len(history), None
        self.summaries += [SummaryCall(tokens_of(prompt), tokens_of(text)) for prompt, text in answer["summaries"]]
        if "overflow" in answer:
            raise ContextOverflowError(answer["overflow"])
        return [history[item] if isinstance(item, int) else self._same(item) for item in answer["sent"]]

    def _same(self, message: Chat) -> Chat:
        """Return the same object for the same message, so that its blocks are read once."""
        return self._made.setdefault(json.dumps(message), message)

    def report_usage(self, usage: Usage) -> None:
        self._usage = (usage.input_tokens, usage.output_tokens)


def ask(process: subprocess.Popen[str], request: dict[str, Any]) -> dict[str, Any]:
    """Return a worker's answer to one request."""
    _tell(process, request)
    line = _pipe(process.stdout).readline()
    if not line:
        raise RuntimeError(f"the worker ended with status {process.wait()}")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _tell(process: subprocess.Popen[str], request: dict[str, Any]) -> None:
    pipe = _pipe(process.stdin)
    pipe.write(json.dumps(request) + "\n")
    pipe.flush()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def peer(name: str, python: str, module: str, *arguments: str) -> Generator[Strategy]:
    """Yield a peer's strategy: `python -m tests.benchmarks.money.peers.<module> <arguments>`, one process for all its runs."""
    command = [python, "-m", f"tests.benchmarks.money.peers.{module}", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = subprocess.Popen(
        command, cwd=_ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    @contextmanager
    def begin(window: int) -> Generator[Run]:
        _tell(process, {"window": window})
        yield _Peer(process)

    try:
        yield Strategy(name, begin)
    finally:
        _pipe(process.stdin).close()
        process.wait()
