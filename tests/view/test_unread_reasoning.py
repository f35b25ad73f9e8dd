"""The reasoning of the newest answer, which the provider leaves out of the context in the next turn: it weighs nothing."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionOutcome, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from tests.conversations import prose, user


def anthropic_answer(words: str, thought: str, call: str) -> list[Any]:
    thinking = [{"type": "thinking", "thinking": thought, "signature": "sealed"}] if thought else []
    calls = [{"type": "tool_use", "id": call, "name": "read", "input": {}}] if call else []
    return [{"role": "assistant", "content": [*thinking, {"type": "text", "text": words}, *calls]}]


def responses_answer(words: str, thought: str, call: str) -> list[Any]:
    reasoning = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": thought}] if thought else []
    calls = [{"type": "function_call", "call_id": call, "name": "read", "arguments": "{}"}] if call else []
    return [*reasoning, {"role": "assistant", "content": words}, *calls]


def chat_answer(words: str, thought: str, call: str) -> list[Any]:
    function = {"name": "read", "arguments": "{}"}
    calls = {"tool_calls": [{"id": call, "type": "function", "function": function}]} if call else {}
    return [{"role": "assistant", "content": words, **({"reasoning_content": thought} if thought else {}), **calls}]


RESULTS: dict[Any, Any] = {
    anthropic_answer: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "42"}]},
    responses_answer: {"type": "function_call_output", "call_id": "a", "output": "42"},
    chat_answer: {"role": "tool", "tool_call_id": "a", "content": "42"},
}


@pytest.mark.parametrize(
    ("model", "format", "answer", "is_read"),
    [
        ("claude-sonnet-4-5", AnthropicFormat(), anthropic_answer, False),
        ("claude-opus-4-5-20251101", AnthropicFormat(), anthropic_answer, True),
        ("claude-sonnet-5", AnthropicFormat(), anthropic_answer, True),
        ("gpt-5.6-sol", OpenAIResponsesFormat(), responses_answer, False),
        (None, OpenAIResponsesFormat(), responses_answer, False),
        ("grok-5", OpenAIResponsesFormat(), responses_answer, True),
        ("deepseek-reasoner", OpenAIChatFormat(), chat_answer, False),
        ("my-model", OpenAIChatFormat(), chat_answer, True),
    ],
)
def test_reasoning_that_the_provider_ignores_in_earlier_turns_does_not_count_as_kept(
    model: str | None, format: Any, answer: Any, is_read: bool
) -> None:
    """A compaction by hand after an answer with much reasoning, the same without it, and one within a turn."""

    def size_after(thought: str, *more: Any) -> tuple[int, int, int]:
        """Return the size of the view, its messages without items of reasoning, and its size with the next question."""
        talk = [each for n in range(40) for each in (user(f"Question {n}"), *answer(prose(100), "", ""))]
        messages = [*talk, user("Question 40"), *answer(prose(100), thought, "a" if more else ""), *more]
        settings = CompactionSettings(keep_user_tokens=0)
        hooks = CompactionController[Any](context_window=200_000, model=model, format=format, settings=settings)
        result = hooks.compact_sync(messages, keep_recent_tokens=3_000)
        hooks.transform_context_sync([*messages, user("Question 41")])
        counted = sum(message.get("type") != "reasoning" for message in result.messages)
        return result.tokens_after, counted, hooks.state().context_tokens or 0

    thought = prose(10_000)
    without, count, later = size_after("")
    after, kept, grown = size_after(thought)
    assert without < 4_500
    assert (after > 10_000) is is_read
    if not is_read:
        assert abs(after - without) < 200
        assert abs(kept - count) <= 1
        assert grown - after == later - without
    assert size_after(thought, RESULTS[answer])[0] > 10_000


@pytest.mark.parametrize(
    ("model", "format", "answer"),
    [
        ("claude-sonnet-4-5", AnthropicFormat(), anthropic_answer),
        ("gpt-5.2", OpenAIResponsesFormat(), responses_answer),
    ],
)
def test_reasoning_of_other_steps_counts_so_that_a_compaction_leaves_them_out(
    model: str, format: Any, answer: Any
) -> None:
    """A server that does not ignore it would get a view above the window, and a compaction by hand would leave out nothing."""
    steps = [each for _ in range(6) for each in (*answer("", prose(1_500), "a"), RESULTS[answer])]
    messages = [user("Solve it."), *steps, *answer("Solved.", prose(1_500), "")]
    hooks = CompactionController[Any](context_window=64_000, model=model, format=format)
    result = hooks.compact_sync(messages, keep_recent_tokens=3_000)
    assert result.outcome is CompactionOutcome.COMPACTED
    assert result.tokens_after < 4_500
    assert len(result.messages) < 0.6 * len(messages)
