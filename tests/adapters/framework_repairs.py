"""Checks of each framework's messages: the same faults and the same digests as in the core's formats."""

from dataclasses import replace
from random import Random

from compaction_hooks.repair import repaired
from tests.adapters.same_chain import chain
from tests.dialects import CHAT
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


def check_same_chain(dialect: Dialect) -> None:
    """A conversation has one digest chain, in these messages and as OpenAI chat dicts: a record applies to both."""
    as_chat = replace(CHAT, system=CHAT.user) if dialect.system is dialect.user else CHAT
    for seed in range(HISTORIES):
        messages, dicts = (history(Random(seed), each) for each in (dialect, as_chat))
        assert chain(dialect.format, messages) == chain(CHAT.format, dicts)
