"""Bedrock Converse messages: blocks, cache points, new messages, answers."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks.errors import FormatError
from compaction_hooks.formats import BedrockConverseFormat, read_answer
from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, Usage
from tests.formats.samples import BEDROCK, IMAGE, IMAGE_HASH

FORMAT = BedrockConverseFormat()
POINT = {"cachePoint": {"type": "default"}}


@pytest.mark.parametrize(
    ("role", "block", "part"),
    [
        ("user", {"text": "hi"}, Text("hi")),
        ("user", {"image": {"format": "png", "source": {"bytes": IMAGE}}}, Media("image/png", IMAGE_HASH)),
        (
            "user",
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/a"}}}},
            Media("video", "s3://b/a", is_reference=True),
        ),
        ("user", {"document": {"name": "a", "source": {"text": "plain"}}}, Text("plain")),
        ("user", {"image": {}}, Opaque("image", '{"image":{}}')),
        (
            "assistant",
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "abcd"}}},
            Thinking("hm", 4),
        ),
        ("assistant", {"reasoningContent": {"redactedContent": b"abc"}}, Thinking("", 4)),
        ("assistant", {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}}, ToolCall("t", "f", '{"a":1}')),
        (
            "user",
            {"toolResult": {"toolUseId": "t", "status": "error", "content": [{"json": {"a": 1}}, {"text": "!"}]}},
            ToolResult("t", '{"a":1}!', is_error=True),
        ),
        (
            "assistant",
            {"citationsContent": {"content": [{"text": "cited"}]}},
            Opaque("citationsContent", '{"citationsContent":{"content":[{"text":"cited"}]}}', content="cited"),
        ),
    ],
)
def test_reads_a_block(role: str, block: Any, part: Part) -> None:
    (piece,) = FORMAT.read({"role": role, "content": [block]})
    assert piece.parts == (part,)


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


@pytest.mark.parametrize("message", [{"content": []}, {"role": "user", "content": [{"type": "tool_use", "id": "a"}]}])
def test_a_message_of_another_shape_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r'"role"|format='):
        FORMAT.read(message)


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
