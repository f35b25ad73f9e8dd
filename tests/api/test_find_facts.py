"""`compaction_hooks.recall.find_facts(messages)`: what the figures of a loss count."""

import json

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.recall import find_facts
from compaction_hooks.testing import as_anthropic
from tests.api.test_loss import FACTS
from tests.conversations import user


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_is_named_in_its_class(kind: str) -> None:
    messages, fact = FACTS[kind]
    fact = fact.partition("=")[0]  # at which a word ends
    elsewhere = as_anthropic(piece for message in messages for piece in OpenAIChatFormat().read(message))
    before = json.dumps(messages)
    assert fact in find_facts(messages)[kind]
    assert find_facts(elsewhere) == find_facts(messages)
    assert json.dumps(messages) == before


def test_a_fact_is_named_once() -> None:
    assert find_facts([user("Port it."), user("Port it.")])["request"] == ["Port it."]


def test_nothing_has_no_facts() -> None:
    assert not any(find_facts([]).values())
