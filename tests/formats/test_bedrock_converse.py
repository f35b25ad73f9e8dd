"""Bedrock Converse messages: blocks, cache points, new messages, answers."""

from typing import Any

import pytest

from compaction_hooks.formats import BedrockConverseFormat, read_answer
from compaction_hooks.messages import Message, Thinking, Usage
from tests.formats.samples import BEDROCK, IMAGE

FORMAT = BedrockConverseFormat()
POINT = {"cachePoint": {"type": "default"}}


def test_redacted_bytes_count_like_their_base64() -> None:
    content = [{"reasoningContent": {"redactedContent": b"abc"}}]
    (piece,) = FORMAT.read({"role": "assistant", "content": content})
    assert piece.parts == (Thinking("", 4),)


def test_bytes_and_base64_are_the_same_image() -> None:
    import base64

    def read(data: object) -> Message:
        (piece,) = FORMAT.read({"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": data}}}]})
        return piece

    assert read(IMAGE) == read(base64.b64decode(IMAGE))


def test_a_cache_point_is_no_part_and_stays_with_the_blocks_before_it() -> None:
    message = BEDROCK[3]
    results, words = FORMAT.read(message)
    assert (len(results.parts), len(words.parts)) == (2, 2)
    first: Any = FORMAT.take(message, [0])
    second: Any = FORMAT.take(message, [1])
    assert (first["content"].count(POINT), second["content"][-1]) == (1, POINT)


def test_the_cache_point_of_a_message_moves_to_a_summary() -> None:
    mark = FORMAT.cache_mark(BEDROCK[3])
    marked: Any = FORMAT.with_cache_mark(FORMAT.summary("so far"), mark)
    assert marked["content"] == [{"text": "so far"}, POINT]
    assert FORMAT.read(marked) == FORMAT.read(FORMAT.summary("so far"))
    assert FORMAT.cache_mark(BEDROCK[0]) is None


COUNTS = {
    "inputTokens": 20,
    "outputTokens": 9,
    "totalTokens": 134,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 5,
}
USAGE = Usage(input_tokens=125, output_tokens=9, cache_read_tokens=100, cache_write_tokens=5)


@pytest.mark.parametrize(
    ("response", "usage", "ending"),
    [
        ({"output": {"message": BEDROCK[2]}, "stopReason": "tool_use", "usage": COUNTS}, USAGE, "tool_calls"),
        ({"stopReason": "model_context_window_exceeded", "usage": COUNTS}, USAGE, "window"),
        ({"messageStop": {"stopReason": "max_tokens"}}, None, "length"),
        ({"metadata": {"usage": COUNTS, "metrics": {"latencyMs": 1}}}, USAGE, None),
    ],
)
def test_usage_and_ending_of_a_response(response: object, usage: Usage | None, ending: str | None) -> None:
    answer = read_answer(response)
    assert answer is not None
    assert (answer.usage, answer.stop_reason) == (usage, ending)
