"""Gemini contents: parts, calls without ids, new contents, the client's own objects."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks.errors import FormatError
from compaction_hooks.formats import GeminiFormat, read_answer
from compaction_hooks.messages import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult, Usage
from tests.formats.samples import GEMINI, IMAGE, IMAGE_HASH

FORMAT = GeminiFormat()
CALLS, RESPONSES = GEMINI[2], GEMINI[3]


@pytest.mark.parametrize(
    ("role", "block", "part"),
    [
        ("user", {"text": "hi"}, Text("hi")),
        ("user", "hi", Text("hi")),
        ("user", {"inlineData": {"mimeType": "image/png", "data": IMAGE}}, Media("image/png", IMAGE_HASH)),
        ("user", {"inline_data": {"mime_type": "image/png", "data": IMAGE}}, Media("image/png", IMAGE_HASH)),
        (
            "user",
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a"}},
            Media("video/mp4", "gs://b/a", is_reference=True),
        ),
        ("model", {"text": "hm", "thought": True, "thoughtSignature": "abcd"}, Thinking("hm", 4)),
        ("model", {"text": "hm", "thought": True, "thought_signature": b"abc"}, Thinking("hm", 4)),
        ("model", {"text": "", "thoughtSignature": "abcd"}, Thinking("", 4)),
        ("model", {"functionCall": {"name": "f"}, "thoughtSignature": "ab"}, ToolCall("f", "f", "", 2)),
        ("user", {"functionResponse": {"name": "f", "response": {"result": "ok"}}}, ToolResult("f", "ok", "f")),
        ("user", {"function_response": {"name": "f", "response": {"error": "no"}}}, ToolResult("f", "no", "f", True)),
        ("user", {"functionResponse": {"name": "f", "response": {"a": 1}}}, ToolResult("f", '{"a":1}', "f")),
        (
            "model",
            {"executableCode": {"code": "1+1"}},
            Opaque("executable_code", '{"executableCode":{"code":"1+1"}}', content="1+1"),
        ),
        ("model", {"new": 1}, Opaque("unknown", '{"new":1}', content="new=1")),
    ],
)
def test_reads_a_part(role: str, block: Any, part: Part) -> None:
    (piece,) = FORMAT.read({"role": role, "parts": [block]})
    assert piece.parts == (part,)


def test_responses_answer_calls_by_name_and_order() -> None:
    """Google's own examples leave the call's id out of the response."""
    (calls,), (results, _) = FORMAT.read(CALLS), FORMAT.read(RESPONSES)
    ids = [call.id for call in calls.calls]
    assert len(set(ids)) == 3
    assert [result.call_id for result in results.results] == ids


def test_a_response_taken_alone_answers_the_same_call() -> None:
    second = FORMAT.read(FORMAT.drop(RESPONSES, [(0, 0)]))[0].results[0]
    assert second == FORMAT.read(RESPONSES)[0].results[1]


@pytest.mark.parametrize(
    ("address", "text", "place", "wanted"),
    [
        ((0, 0), "cut", 0, {"functionResponse": {"name": "read", "response": {"output": "cut"}}}),
        ((0, 1), "cut", 1, {"functionResponse": {"id": "c2", "name": "read", "response": {"error": "cut"}}}),
        ((0, 2), "cut", 2, {"functionResponse": {"name": "list", "response": {"output": "cut"}}}),
        ((1, 1), "now.", 4, {"text": "now."}),
    ],
)
def test_a_rewritten_part_keeps_its_shape(address: tuple[int, int], text: str, place: int, wanted: object) -> None:
    made: Any = FORMAT.rewrite(RESPONSES, {address: text})
    assert made["parts"][place] == wanted
    kept = [part for index, part in enumerate(made["parts"]) if index != place]
    assert all(any(part is old for old in RESPONSES["parts"]) for part in kept)


@pytest.mark.parametrize("message", [{"role": "user", "content": "hi"}, {"role": "user", "parts": 5}])
def test_a_message_of_another_shape_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r'"parts"|"content"'):
        FORMAT.read(message)


RESPONSE = {
    "candidates": [{"content": CALLS, "finishReason": "MAX_TOKENS"}],
    "modelVersion": "gemini-3-pro",
    "usageMetadata": {
        "promptTokenCount": 100,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
    },
}


def test_usage_and_ending_of_a_response() -> None:
    """Thoughts are output, results of Google's own tools are input, and the cached part is in the prompt already."""
    answer = read_answer(RESPONSE)
    assert answer is not None
    assert answer.usage == Usage(input_tokens=110, output_tokens=12, cache_read_tokens=60)
    assert (answer.stop_reason, answer.model) == ("length", "gemini-3-pro")


def test_objects_of_the_client_read_like_the_dicts() -> None:
    types: Any = pytest.importorskip("google.genai.types")
    for content in GEMINI[2:4]:
        made = types.Content.model_validate(content)
        assert FORMAT.read(made) == FORMAT.read(content)
    response = types.GenerateContentResponse.model_validate({**RESPONSE, "candidates": [{"finishReason": "STOP"}]})
    answer = read_answer(response)
    assert answer is not None
    assert (answer.usage, answer.stop_reason) == (
        Usage(input_tokens=110, output_tokens=12, cache_read_tokens=60),
        "complete",
    )
