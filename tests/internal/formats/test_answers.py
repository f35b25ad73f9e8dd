"""What a provider's answer says of its call: usage, model, stop reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compaction_hooks import Message, Usage
from compaction_hooks.formats.answers import is_cut_by_window, read_answer
from compaction_hooks.messages import Part, StopReason, Text
from tests.cases import folded

OPENAI = {
    "model": "gpt-5",
    "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant"}}],
    "usage": {"prompt_tokens": 120, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 100}},
}
ANTHROPIC = {
    "model": "claude",
    "type": "message",
    "stop_reason": "max_tokens",
    "usage": {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 4},
}
RESPONSES = {
    "model": "gpt-5",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "usage": {"input_tokens": 120, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 100}},
}


def as_object(value: Any) -> Any:
    """The same as an SDK gives it: attributes instead of keys."""
    if isinstance(value, dict):
        fields = {name: as_object(item) for name, item in value.items()}
        return SimpleNamespace(**fields, model_dump=lambda **_: value)
    return [as_object(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("shape", [dict, as_object], ids=["dict", "object"])
@pytest.mark.parametrize(
    ("response", "model", "stop_reason"),
    [
        pytest.param(OPENAI, "gpt-5", "tool_calls", id="OpenAI chat"),
        pytest.param(ANTHROPIC, "claude", "length", id="Anthropic"),
        pytest.param(RESPONSES, "gpt-5", "length", id="OpenAI Responses"),
        pytest.param({**RESPONSES, "metadata": {}}, "gpt-5", "length", id="OpenAI Responses, as it comes"),
    ],
)
def test_usage_counts_the_whole_input_once(response: Any, model: str, stop_reason: StopReason, shape: Any) -> None:
    answer = read_answer(shape(response))
    assert answer is not None
    assert answer.usage == Usage(input_tokens=120, output_tokens=4, cache_read_tokens=100)
    assert (answer.model, answer.stop_reason) == (model, stop_reason)


@pytest.mark.parametrize(
    ("chunk", "tokens", "stop_reason"),
    [
        pytest.param({"type": "message_start", "message": ANTHROPIC | {"stop_reason": None}}, 120, None, id="start"),
        pytest.param({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, None, "complete", id="end"),
        pytest.param({"type": "response.completed", "response": RESPONSES}, 120, "length", id="Responses"),
        pytest.param({"choices": [], "usage": OPENAI["usage"]}, 120, None, id="OpenAI chat"),
        pytest.param({"type": "chunk", "chunk": {"usage": OPENAI["usage"]}}, 120, None, id="an event of its client"),
    ],
)
def test_usage_and_ending_of_a_chunk(chunk: Any, tokens: int | None, stop_reason: StopReason | None) -> None:
    answer = read_answer(chunk)
    assert answer is not None
    assert (answer.usage.input_tokens if answer.usage else None) == tokens
    assert answer.stop_reason == stop_reason


@pytest.mark.parametrize(
    "response", ["text", None, 7, [], {}, {"choices": []}, {"choices": "x", "usage": "y"}, object()]
)
def test_an_answer_without_facts_is_none(response: object) -> None:
    assert read_answer(response) is None


WINDOW_SAID = Message(role="assistant", parts=(), stop_reason="window")


def stopped(output: int, input: int = 4_000, *parts: Part, reason: StopReason = "length") -> Message:
    usage = Usage(input_tokens=input, output_tokens=output)
    return Message(role="assistant", parts=parts, usage=usage, stop_reason=reason)


@folded(
    "answer, requested, window, is_cut",
    {
        "the provider says so, and nothing else": (WINDOW_SAID, None, None, True),
        "the provider says so, whatever was asked for": (stopped(900, reason="window"), 900, 128_000, True),
        "nothing was written, window unknown": (stopped(0), None, None, True),
        "nothing was written, window believed larger": (stopped(0), None, 128_000, True),
        "something was written, but not counted": (stopped(0, 4_000, Text("Some")), None, None, False),
        "nothing is known but the word": (stopped(500), None, None, False),
        "far below the window": (stopped(500), None, 128_000, False),
        "input and output fill the window": (stopped(500), None, 4_500, True),
        "less than asked for, window unknown": (stopped(500), 2_000, None, True),
        "less than asked for, window believed larger": (stopped(500), 2_000, 128_000, True),
        "its own limit, window full or not": (stopped(500), 500, 4_500, False),
        "its own limit, the last token counted differently": (stopped(499), 500, None, False),
        "it ended by itself": (stopped(500, reason="complete"), 2_000, 4_500, False),
        "it failed": (stopped(0, reason="error"), 2_000, 4_500, False),
        "no usage": (Message(role="assistant", parts=(), stop_reason="length"), 2_000, 4_500, False),
    },
)
def test_the_window_or_its_own_limit_ended_an_answer(
    answer: Message, requested: int | None, window: int | None, is_cut: bool
) -> None:
    assert is_cut_by_window(answer, requested=requested, window=window) is is_cut


def test_reasoning_that_is_counted_in_the_total_only_is_output() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 607}
    answer = read_answer({"choices": [{"finish_reason": "length"}], "usage": usage})
    assert answer is not None
    assert answer.usage == Usage(input_tokens=100, output_tokens=507)
