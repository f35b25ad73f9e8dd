"""Gemini contents: parts, calls without ids, new contents, the client's own objects."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks.formats import GeminiFormat, read_answer
from compaction_hooks.messages import Thinking, Usage
from tests.formats.samples import GEMINI

FORMAT = GeminiFormat()
CALLS, RESPONSES = GEMINI[2], GEMINI[3]


def test_a_signature_of_bytes_counts_like_its_base64() -> None:
    (piece,) = FORMAT.read({"role": "model", "parts": [{"text": "hm", "thought": True, "thought_signature": b"abc"}]})
    assert piece.parts == (Thinking("hm", 4),)


def test_responses_answer_calls_by_name_and_order() -> None:
    """Google's own examples leave the call's id out of the response."""
    (calls,), (results, _) = FORMAT.read(CALLS), FORMAT.read(RESPONSES)
    ids = [call.id for call in calls.calls]
    assert len(set(ids)) == 3
    assert [result.call_id for result in results.results] == ids


def test_a_response_taken_alone_answers_the_same_call() -> None:
    second = FORMAT.read(FORMAT.drop(RESPONSES, [(0, 0)]))[0].results[0]
    assert second == FORMAT.read(RESPONSES)[0].results[1]


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
