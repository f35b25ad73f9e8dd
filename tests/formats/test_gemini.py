"""Gemini contents: parts, calls without ids, new contents, the client's own objects."""

from itertools import cycle
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import GeminiFormat, read_answer
from compaction_hooks.messages import Thinking, Usage
from compaction_hooks.repair import INTERRUPTED, repaired
from tests.cases import folded
from tests.formats.samples import GEMINI

FORMAT = GeminiFormat()
CALLS, RESPONSES = GEMINI[2], GEMINI[3]


def test_a_signature_of_bytes_counts_like_its_base64() -> None:
    (piece,) = FORMAT.read({"role": "model", "parts": [{"text": "hm", "thought": True, "thought_signature": b"abc"}]})
    assert piece.parts == (Thinking("hm", 4),)


def call(id: str, **arguments: object) -> dict[str, Any]:
    return {
        "functionCall": {"id": id, "name": "read", "args": arguments} if id else {"name": "read", "args": arguments}
    }


def response(id: str, output: str) -> dict[str, Any]:
    given = {"id": id} if id else {}
    return {"functionResponse": {**given, "name": "read", "response": {"output": output}}}


def conversation(*contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a request, these contents by turns of the model and the user, and a request."""
    roles = cycle(["model", "user"])
    asked: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": words}]} for words in ("Read both.", "And now?")]
    return [asked[0], *({"role": role, "parts": parts} for role, parts in zip(roles, contents, strict=False)), asked[1]]


A, B, CALL_A, CALL_B = response("a", "A"), response("b", "B"), call("a", path="a"), call("b", path="b")
STAND_IN = {"id": "a", "name": "read", "response": {"error": INTERRUPTED}}


@pytest.mark.parametrize("is_object", [False, True], ids=["dicts", "objects"])
@folded(
    "contents, answers",
    {
        "an orphan first": ([[CALL_A], [response("other", "?"), A]], [A]),
        "half answered": ([[CALL_A, CALL_B], [B]], [B, {"functionResponse": STAND_IN}]),
        "another order": ([[CALL_A, CALL_B], [B, A]], [B, A]),
        "responses without ids": ([[CALL_A, CALL_B], [response("", "A"), response("", "B")]], None),
        "one response without an id": ([[CALL_A, CALL_B], [response("", "B"), A]], None),
        "no ids": ([[call(""), call("")], [response("", "A"), response("", "B")]], None),
        "a call without an id": ([[call("")], [response("mine", "A")]], None),
    },
)
def test_repair_pairs_calls_and_responses_as_the_api_does(
    contents: list[Any], answers: list[Any] | None, *, is_object: bool
) -> None:
    """By the API's ids, and by name and order for one without: Google's client leaves it out of the responses that it makes."""
    messages: list[Any] = conversation(*contents)
    if is_object:
        types: Any = pytest.importorskip("google.genai.types")
        messages = [types.Content.model_validate(content) for content in messages]
    mended = repaired(messages, FORMAT)
    if answers is None or contents[1] == answers:
        assert mended is messages
    else:
        read = [FORMAT.read(message)[0] for message in mended]
        expected = [FORMAT.read(message)[0] for message in conversation(contents[0], answers)]
        assert read == expected


def test_a_cleared_result_is_named_after_its_own_call() -> None:
    """Parallel responses may come in another order than their calls."""
    contents: list[Any] = []
    for step in range(6):
        contents.append([call(f"{name}{step}", path=f"{name}{step}.py") for name in "ab"])
        contents.append([response(f"{name}{step}", f"{name}{step} " * 900) for name in "ba"])
    messages = conversation(*contents)
    hooks: Any = CompactionController(context_window=14_000)
    hooks.session("default").recall_tool(lambda: messages)
    view = hooks.transform_context_sync(messages)
    shown = [part["functionResponse"]["response"]["output"] for part in view[2]["parts"]]
    assert [text.partition(" left out")[0] for text in shown] == [
        f'[2,700 characters of read("{name}0.py")' for name in "ba"
    ]


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
