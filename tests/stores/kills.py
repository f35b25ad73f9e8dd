"""Processes that save are killed at any point of a save; what they were told is kept must be there, whole."""

import os
import random
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stores.opened import open_store
from tests.stores.saver import number_of

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS_INTO_A_SAVE = 0.004
"""A save takes 0.2 to 5 ms, the first of a process, which opens the store, more. Most kills come early: a record is settled soon
after its last page is written, and the rest of a save is waiting for the disk."""


@dataclass
class Kills:
    """Counts of kills and records.

    Attributes:
        within: Kills between the begin of a save and the word that it is done.
        kept: Of these, the ones whose record was there afterwards, whole.
        acknowledged: Records whose saving was said to be done.
    """

    rounds: int = 0
    within: int = 0
    kept: int = 0
    acknowledged: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rounds} kills, {self.within} within a save (record there afterwards: {self.kept}, not there: "
            f"{self.within - self.kept}), {self.acknowledged} acknowledged records, all there and whole"
        )


def check_kills(
    kind: str, where: str, rounds: int, *, seed: int = 0, saves: int = 6, strike: Callable[[Any], None] | None = None
) -> Kills:
    """Kill a saving process so many times, each in a session of its own.

    Args:
        saves: The kill comes in one of so many first saves of the process.
        strike: What is done to the saving process, or to the server; killed by SIGKILL by default.

    Raises:
        AssertionError: an acknowledged record is missing, one is torn, or more than the one under way is there in addition.
    """
    seen, chance = Kills(), random.Random(seed)
    sessions: dict[str, set[int]] = {}
    for number in range(rounds):
        session = f"killed {seed} {number}"
        begun, done = _save_and_kill(kind, where, session, saves, chance, strike or subprocess.Popen.kill)
        numbers = _numbers(kind, where, session)
        assert done <= numbers <= begun, (
            f"{session}: done {sorted(done)}, there {sorted(numbers)}, begun {sorted(begun)}"
        )
        seen.rounds += 1
        seen.within += len(begun - done)
        seen.kept += len(numbers - done)
        seen.acknowledged += len(done)
        sessions[session] = numbers
    for session, numbers in sessions.items():
        assert _numbers(kind, where, session) == numbers, "a later kill cost an earlier record"
    return seen


def _save_and_kill(
    kind: str, where: str, session: str, saves: int, chance: random.Random, strike: Callable[[Any], None]
) -> tuple[set[int], set[int]]:
    """Let a process save, kill it, and return the saves it had begun and the ones it had done."""
    # A measurement of coverage could not end properly in there.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    target, patience = chance.randrange(saves), MOST_SECONDS_INTO_A_SAVE * chance.random() ** 4
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.saver", kind, where, session, session],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        pipe, said = process.stdout.fileno(), b""
        while f"begin {target}\n".encode() not in said:
            said += (more := os.read(pipe, 65_536))
            assert more, "the saving process ended by itself"
        select.select([], [], [], patience)  # not to wait for something: to strike anywhere
        strike(process)
        process.kill()
        while more := os.read(pipe, 65_536):
            said += more
    words = [line.split() for line in said.decode().splitlines()]
    begun = {int(number) for word, number in words if word == "begin"}
    return begun, {int(number) for word, number in words if word == "done"}


def _numbers(kind: str, where: str, session: str) -> set[int]:
    """The numbers of a session's records, each of which is whole."""
    store: Any = open_store(kind, where)
    texts = store.load(session)
    numbers = [number_of(text) for text in texts]
    assert len(numbers) == len(set(numbers))
    if hasattr(store, "close"):
        store.close()
    return set(numbers)
