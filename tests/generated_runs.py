"""Generated histories, run call by call: the same in the soak and in the sample of it that the fast suite runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compaction_hooks.testing import generated_history
from tests.invariants import Report, estimated, run

WINDOWS = (4_096, 8_192, 16_384, 32_768)
HOSTILE_EVERY = 4
"""Of the seeds, each so many-th gives a history that some framework, crash or edit has left behind."""


@dataclass(frozen=True, slots=True)
class GeneratedRun:
    """What became of one history."""

    kind: Literal["realistic", "hostile"]
    window: int
    report: Report


def run_generated(seed: int) -> GeneratedRun:
    """Run the history of a seed: its kind, its window and whether usage is reported follow from the seed."""
    turn, kind_of = divmod(seed, HOSTILE_EVERY)
    is_hostile = kind_of == HOSTILE_EVERY - 1
    window = WINDOWS[turn % len(WINDOWS)]
    reports_usage = bool(turn // len(WINDOWS) % 2)
    record = {"messages": generated_history(seed, is_hostile=is_hostile)}
    report = run(record, window, estimated, reports_usage=reports_usage, is_hostile=is_hostile)
    return GeneratedRun("hostile" if is_hostile else "realistic", window, report)
