"""A peer's own process: reads one task a line from its standard input, and answers each with one line of JSON.

python -m tests.benchmarks.peers.worker langchain_middleware
"""

import asyncio
import importlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

from tests.benchmarks.history import grow
from tests.benchmarks.peers.peer import BasePeer
from tests.benchmarks.peers.scenarios import Play, idle_seconds

ADDED = 400
"""Most messages added while single calls are timed."""

history = cache(grow)


class Worker:
    """The tasks of one peer, by name."""

    def __init__(self, peer: type[BasePeer[Any]]) -> None:
        self._peer = peer
        self._play = cache(self._new_play)

    def about(self) -> object:
        versions = {name: version(name) for name in self._peer.packages}
        return {"name": self._peer.name, "versions": versions, "usage": self._peer.reads_usage}

    def idle(self, messages: int, usage: bool) -> object:
        return asyncio.run(idle_seconds(self._peer, history(messages + ADDED), messages, usage=usage))

    def count(self, **size: Any) -> object:
        return asyncio.run(self._play(**size).count())

    def clock(self, **size: Any) -> object:
        return asyncio.run(self._play(**size).clock())

    def _new_play(self, messages: int, window: int, usage: bool) -> Play[Any]:
        return Play(self._peer, history(messages), window=window, usage=usage)


def load(module: str) -> type[BasePeer[Any]]:
    """Return the peer of a module in this folder."""
    peer: type[BasePeer[Any]] = importlib.import_module(f"tests.benchmarks.peers.{module}").Peer
    return peer


def serve(answer: Callable[[dict[str, Any]], object]) -> None:
    """Answer lines until the standard input ends."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a peer's own output must not mix with answers
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    worker = Worker(load(sys.argv[1]))
    serve(lambda task: getattr(worker, task.pop("task"))(**task))
