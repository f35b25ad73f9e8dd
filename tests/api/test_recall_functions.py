"""`compaction_hooks.recall.diff(messages, view)`, for people to read, and `find_facts(messages)`, what a loss counts."""

import json

import pytest

from compaction_hooks import CompactionSettings
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.recall import diff, find_facts
from compaction_hooks.testing import as_anthropic
from tests.api.test_loss import FACTS
from tests.conversations import Scripted, above_threshold, assistant, call, controller, prose, steps, tool, user

LONG = prose(2_000)


def test_it_counts_the_parts_and_shows_the_summary_whole() -> None:
    messages = above_threshold()
    view = controller(8_192, summarizer=Scripted("## Goal\n- the vault")).transform_context_sync(messages)
    counts, *lines = diff(messages, view).splitlines()
    left_out = len(messages) - len(view) + 1
    assert counts == f"Parts of messages: {left_out} left out, 0 shortened, 1 added, {len(view) - 1} kept"
    assert sum(line.startswith("- ") for line in lines) == left_out
    added = [line for line in lines if line.startswith("+")]
    assert added[0] == "+ user: [Conversation summary]"
    assert {"+ ## Goal", "+ - the vault"} <= {*added}
    assert lines[0].startswith("  system: ")
    assert lines[1].startswith("- user: Question 0")
    assert lines[-2] == f"  ({len(view) - 4} more)"
    assert max(map(len, lines)) < 200


def test_a_shortened_result_is_one_line_with_both_sizes() -> None:
    messages = [user("Read it."), assistant("I do.", call("a", path="a.py")), tool("a", LONG), *steps(3)]
    view = controller(settings=CompactionSettings(max_result_tokens=1_000)).transform_context_sync(messages)
    shown = diff(messages, view).splitlines()
    assert shown[0].startswith("Parts of messages: 0 left out, 1 shortened, 0 added, ")
    assert shown[1:4] == ["  user: Read it.", "  assistant: I do.", '  assistant calls read_file("a.py")']
    assert shown[4].startswith(f"~ tool: {LONG[:60]}")
    assert shown[4].endswith(f"({len(LONG):,} -> {len(view[2]['content']):,} characters)")


def test_a_list_and_itself_have_no_difference() -> None:
    assert diff(above_threshold(), above_threshold()) == ""


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
