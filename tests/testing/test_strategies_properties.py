"""The published strategies: their examples, their shrinking, and that nothing else needs Hypothesis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from random import Random

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionSettings, Message
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.testing import as_anthropic, as_openai_chat
from compaction_hooks.testing.strategies import anthropic_chats, edited, histories, hostile_histories, openai_chats
from compaction_hooks.validity import problems
from tests.sizes import examples

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
SEARCH = settings(max_examples=500, deadline=None, database=None, suppress_health_check=SLOW)
few = settings(examples(40), suppress_health_check=SLOW)


@few
@given(histories())
def test_histories_are_valid_for_every_provider(messages: list[Message]) -> None:
    assert problems(messages) == []
    assert any(message.role == "user" for message in messages)


def test_histories_shrink_to_a_few_messages() -> None:
    found = find(
        histories(), lambda messages: any(message.results for message in messages), settings=SEARCH, random=Random(0)
    )
    assert len(found) <= 6


@pytest.mark.parametrize("rule", ["unanswered_call", pytest.param("split_step", marks=pytest.mark.full)])
def test_hostile_histories_shrink_to_one_breach(rule: str) -> None:
    def is_broken(messages: list[Message]) -> bool:
        return any(problem.rule == rule for problem in problems(messages))

    assert len(find(hostile_histories(most_beats=8), is_broken, settings=SEARCH, random=Random(0))) <= 8


@few
@given(openai_chats(), st.data())
def test_edited_chats_are_read_by_the_default_format(messages: list[Mapping[str, object]], data: st.DataObject) -> None:
    new: Mapping[str, object] = {"role": "user", "content": "new"}
    other = data.draw(edited(messages, new))
    assert all(OpenAIChatFormat().read(message) for message in [*messages, *other])


@few
@given(anthropic_chats())
def test_anthropic_chats_are_read_by_their_format(messages: list[Mapping[str, object]]) -> None:
    assert all(AnthropicFormat().read(message) for message in messages)


@few
@given(histories(), st.integers(200, 3_000))
def test_a_record_made_in_one_format_gives_the_same_view_in_another(messages: list[Message], keep: int) -> None:
    """The record of any realistic conversation applies to it in Anthropic's form too."""
    spoken = [message for message in messages if message.role != "system"]
    chat = [as_openai_chat(message) for message in spoken]
    made = CompactionController(context_window=1_000_000).session("here")
    result = made.compact_sync(chat, keep_recent_tokens=keep)
    elsewhere = CompactionController(
        format=AnthropicFormat(), context_window=1_000_000, settings=CompactionSettings(auto_compact=False)
    ).session("there")
    elsewhere.import_records(made.export_records())
    view = elsewhere.transform_context_sync(as_anthropic(spoken))
    wanted = [piece for message in result.messages for piece in OpenAIChatFormat().read(message)]
    found = [piece for message in view for piece in AnthropicFormat().read(message)]
    assert _contents(found) == _contents(wanted)


def _contents(messages: list[Message]) -> tuple[str, list[str], list[str]]:
    """Return texts, tool calls and results, independently of message borders."""
    texts = "".join(message.text for message in messages)
    calls = [call.id for message in messages for call in message.calls]
    results = [result.text for message in messages for result in message.results]
    return texts, calls, results


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import compaction_hooks.testing
for name in ("strategies", "machine"):
    try:
        __import__(f"compaction_hooks.testing.{name}")
    except ModuleNotFoundError as error:
        print(type(error).__name__, error)
"""


def test_only_strategies_and_machine_need_hypothesis() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    wanted = "needs Hypothesis: pip install 'compaction-hooks[testing]'"
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("MissingExtraError compaction_hooks.testing.") and wanted in line for line in lines)
