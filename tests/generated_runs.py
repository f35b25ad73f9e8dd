"""Replays of generated histories, call by call, for the soak and for a sample of it in the fast suite."""

from dataclasses import dataclass
from typing import Literal

from compaction_hooks.testing import generated_history
from tests.invariants import Report, estimate_message, run

WINDOWS = (4_096, 8_192, 16_384, 32_768)
HOSTILE_EVERY = 4
"""Every fourth seed gives a hostile history, as left behind by a framework, crash or edit."""


@dataclass(frozen=True, slots=True)
class GeneratedRun:
    kind: Literal["realistic", "hostile"]
    window: int
    report: Report


def run_generated(seed: int) -> GeneratedRun:
    """Replay the history of a seed, which also determines its kind, its window and whether usage is reported."""
    turn, kind_of = divmod(seed, HOSTILE_EVERY)
    is_hostile = kind_of == HOSTILE_EVERY - 1
    window = WINDOWS[turn % len(WINDOWS)]
    reports_usage = bool(turn // len(WINDOWS) % 2)
    record = {"messages": generated_history(seed, is_hostile=is_hostile)}
    report = run(record, window, estimate_message, reports_usage=reports_usage, is_hostile=is_hostile)
    return GeneratedRun("hostile" if is_hostile else "realistic", window, report)
