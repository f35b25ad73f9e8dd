"""Generated conversations have the promised contents, so that tests with them are meaningful."""

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import Message, ToolResult
from compaction_hooks.testing import as_anthropic, as_openai_chat, generated_history, hostile_history, realistic_history
from compaction_hooks.testing.texts import HOSTILE
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import problems
from compaction_hooks.view.texts import SUMMARY_MARKER
from tests.cases import sampled

SEEDS = range(200)


def realistic(seed: int) -> list[Message]:
    return realistic_history(random.Random(seed).randrange)


def hostile(seed: int) -> list[Message]:
    return hostile_history(random.Random(seed).randrange)


def tokens(messages: Sequence[Message]) -> int:
    return sum(map(CharacterEstimator().estimate_message_tokens, messages))


def test_a_seed_gives_the_same_conversation_in_every_process() -> None:
    script = (
        "import hashlib, json; from compaction_hooks.testing import generated_history as g;"
        "print(hashlib.sha256(json.dumps([g(n, is_hostile=n % 2 == 0) for n in range(20)]).encode()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = [generated_history(n, is_hostile=n % 2 == 0) for n in range(20)]
    assert done.stdout.strip() == hashlib.sha256(json.dumps(here).encode()).hexdigest()
    assert generated_history(1) != generated_history(2)


def test_realistic_conversations_are_valid_for_every_provider() -> None:
    assert [seed for seed in SEEDS if problems(realistic(seed))] == []


def test_realistic_conversations_have_parallel_calls_errors_and_all_endings() -> None:
    all_of_them = [realistic(seed) for seed in SEEDS]
    messages = [message for one in all_of_them for message in one]
    assert any(len(message.calls) > 1 for message in messages)
    assert any(result.is_error for message in messages for result in message.results)
    assert {one[-1].role for one in all_of_them} == {"user", "assistant", "tool"}
    assert {one[0].role for one in all_of_them} == {"system", "user"}
    assert 20 <= median(map(len, all_of_them)) <= 60
    assert 5_000 <= median(map(tokens, all_of_them)) <= 40_000


def test_hostile_conversations_break_the_rules_of_every_provider() -> None:
    broken = {problem.rule for seed in SEEDS for problem in problems(hostile(seed))}
    assert broken >= {
        "empty_list",
        "only_system",
        "first_not_user",
        "system_inside",
        "empty_content",
        "dangling_reasoning",
        "unanswered_call",
        "orphan_result",
        "detached_result",
        "split_step",
        "duplicate_result",
        "duplicate_call",
    }


def test_hostile_texts_look_like_this_packages_own() -> None:
    assert any(text.startswith(SUMMARY_MARKER) for text in HOSTILE)


@pytest.mark.parametrize("seed", sampled(range(0, 200, 10), 4))
def test_messages_written_for_a_host_read_back_the_same(seed: int) -> None:
    messages = realistic(seed)
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    assert [piece for message in messages for piece in chat.read(as_openai_chat(message))] == messages
    read = [piece for message in as_anthropic(messages) for piece in anthropic.read(message)]
    texts = [message.text for message in messages if message.role in ("user", "assistant")]
    assert "".join(piece.text for piece in read if piece.role in ("user", "assistant")) == "".join(texts)
    ids = [result.call_id for message in messages for result in message.results]
    assert [part.call_id for piece in read for part in piece.parts if isinstance(part, ToolResult)] == ids
