"""A peer's own process: reads one task a line from its standard input, and answers each with one line of JSON.

    python -m tests.benchmarks.peers.langchain_middleware

`Worker` defines the tasks and their answers.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic

from tests.benchmarks.history import grow
from tests.benchmarks.peers.peer import Chat, M, Peer
from tests.benchmarks.peers.scenarios import Play, idle_seconds

PLAY_TASKS = ("count", "clock", "peak")
ADDED = 400
"""Most messages added while single calls are timed."""


class Worker(Generic[M]):
    """Runner of the tasks for one peer."""

    def __init__(self, peer: Peer[M]) -> None:
        self._peer = peer
        self._plays: dict[tuple[str, int, int, bool], Play[M]] = {}

    async def do(self, task: dict[str, Any]) -> object:
        """Return the answer to a task, by its name: "about", "idle", or one of `Play`: "count", "clock", "peak"."""
        match task.pop("task"):
            case "about":
                return self._about()
            case "idle":
                return await self._idle(**task)
            case str(name) if name in PLAY_TASKS:
                return await getattr(self._play(**task), name)()
            case other:
                raise ValueError(f"no task is called {other!r}")

    def _about(self) -> dict[str, object]:
        peer = self._peer
        return {
            "name": peer.name,
            "settings": peer.settings,
            "versions": {name: importlib.metadata.version(name) for name in peer.packages},
            "usage": peer.reads_usage,
            "sampled": peer.sampled_calls,
            "sessions": peer.plays_sessions,
        }

    async def _idle(self, messages: int, usage: bool) -> float:
        return await idle_seconds(self._peer, _history("", messages + ADDED), messages, usage=usage)

    def _play(self, source: str, messages: int, window: int, usage: bool) -> Play[M]:
        key = (source, messages, window, usage)
        if key not in self._plays:
            self._plays[key] = Play(self._peer, _history(source, messages), window=window, usage=usage)
        return self._plays[key]


@cache
def _history(source: str, messages: int) -> Sequence[Chat]:
    """Return the generated history, or the one in a JSON file."""
    if not source:
        return grow(messages)
    made: Sequence[Chat] = json.loads(Path(source).read_text(encoding="utf-8"))
    return made[:messages]


def serve(peer: Peer[M]) -> None:
    """Answer tasks until the standard input ends."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a peer's own output must not mix with answers
    worker = Worker(peer)
    for line in sys.stdin:
        answers.write(json.dumps(asyncio.run(worker.do(json.loads(line)))) + "\n")
        answers.flush()
