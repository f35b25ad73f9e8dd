"""What each framework's test of `repair` runs: the same faults as the core's formats, in its own messages."""

from __future__ import annotations

from random import Random

from compaction_hooks.repair import repaired
from tests.repairs import Dialect, broken, check_prefix, check_repair, history

HISTORIES = 60


def check_broken_histories(dialect: Dialect) -> None:
    """Mend histories broken in every way; what must hold is in `check_repair`."""
    wrong = prefixes = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        messages = broken(random, dialect)
        wrong += bool(dialect.problems(messages))
        check_repair(dialect, messages)
        cut = random.randint(0, len(messages))
        prefixes += check_prefix(dialect, messages[:cut], messages[cut:])
    assert wrong > HISTORIES // 2
    assert prefixes > HISTORIES // 20


def check_whole_histories(dialect: Dialect) -> None:
    """Whole histories come back themselves."""
    for seed in range(HISTORIES):
        messages = history(Random(seed), dialect)
        assert repaired(messages, dialect.format) is messages
