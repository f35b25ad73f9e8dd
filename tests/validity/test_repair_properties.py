"""Histories broken in every way that hypothesis finds are repaired; the loopback provider's own checks judge them too."""

from random import Random
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks.repair import repaired
from compaction_hooks.validity import problems
from tests.dialects import ALL, ANTHROPIC, CHAT
from tests.provider.validation import anthropic_fault, openai_fault
from tests.repairs import Dialect, broken, check_prefix, check_repair

dialects = pytest.mark.parametrize("dialect", [pytest.param(dialect, id=name) for name, dialect in ALL.items()])
randoms = st.randoms(use_true_random=False)


@dialects
@given(random=randoms)
@settings(deadline=None)
def test_a_broken_history_is_repaired_and_nothing_is_lost(dialect: Dialect, random: Random) -> None:
    """Valid, idempotent, the same each time, the input untouched, all words, calls and answers kept."""
    check_repair(dialect, broken(random, dialect))


@dialects
@given(random=randoms)
@settings(deadline=None)
def test_a_longer_history_is_repaired_as_the_shorter_one_was(dialect: Dialect, random: Random) -> None:
    check_prefix(dialect, broken(random, dialect), [dialect.user("and now?"), *broken(random, dialect)])


def chat_fault(messages: list[Any]) -> object:
    return openai_fault({"messages": messages})


def claude_fault(messages: list[Any]) -> object:
    spoken = [message for message in messages if message["role"] != "system"]
    return anthropic_fault({"max_tokens": 1, "messages": [*spoken, {"role": "user", "content": "Go on."}]})


@given(random=randoms)
@settings(deadline=None)
def test_faults_that_the_chat_provider_rejects_are_found_and_repaired(random: Random) -> None:
    """Two judges that know nothing of each other: the checker, and the provider that the adapters' tests talk to."""
    messages = broken(random, CHAT)
    assert (chat_fault(messages) is None) == (problems(CHAT.read(messages), "openai_chat") == [])
    after = repaired(messages, CHAT.format)
    assert chat_fault(after) is None or after == []


@given(random=randoms)
@settings(deadline=None)
def test_faults_that_the_anthropic_provider_rejects_are_found_and_repaired(random: Random) -> None:
    messages = [*broken(random, ANTHROPIC), {"role": "user", "content": "Go on."}]
    if claude_fault(messages) is not None:
        assert problems(ANTHROPIC.read(messages), "anthropic") != []
    assert claude_fault(repaired(messages, ANTHROPIC.format)) is None
