"""One module for each framework: a conversation in its messages, and runs with a hook that does nothing and with ours.

`tests.benchmarks.adapters` measures them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from compaction_hooks import CompactionController

RESULT = "def parse(line): return line.split()\n" * 3
"""What every tool call gives."""
Run: TypeAlias = Callable[[int], Awaitable[object]]
"""Runs a framework for so many model calls."""


@dataclass(slots=True)
class Watch:
    """When the model was called, and the times spent in the adapter's function, in seconds; what it waits for is left out."""

    calls: list[float] = field(default_factory=list[float])
    spent: list[float] = field(default_factory=list[float])
    _waited: float = 0.0

    def note_call(self) -> None:
        """The model is called."""
        self.calls.append(time.perf_counter())

    @contextmanager
    def working(self) -> Generator[None]:
        """Count the block under `with`."""
        start, self._waited = time.perf_counter(), 0.0
        yield
        self.spent.append(time.perf_counter() - start - self._waited)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Leave out the block under `with`, inside of the other."""
        start = time.perf_counter()
        yield
        self._waited += time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Stage:
    """One framework with a hook that does nothing, and with ours."""

    name: str
    plain: Run
    ours: Run
    watch: Watch


def controller() -> CompactionController[Any]:
    """Return a controller for which nothing is ever due."""
    return CompactionController(context_window=1_000_000_000)


def read_file(path: str) -> str:
    """Read a file."""
    return RESULT


def tool_call(number: int) -> Any:
    """Return a call in LangChain's shape, which the others are made of."""
    return {"name": "read_file", "args": {"path": f"src/part_{number}.py"}, "id": f"call_{number}"}
