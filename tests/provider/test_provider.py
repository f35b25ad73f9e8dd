"""The loopback provider behaves like the real ones: seen by plain HTTP, and by the clients of openai and anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import httpx

from compaction_hooks import Usage, parse_overflow
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from tests.provider import WORDINGS, Answer, Call, LoopbackProvider, Rejection

USER = {"role": "user", "content": "How is the weather in Paris?"}
LONG_USER = {"role": "user", "content": "line of the log\n" * 1_500}
WEATHER = Call("weather", {"city": "Paris"})
CHAT_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
}
CHAT_CALLS = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
TOOL_USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {}}]}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


class Caller:
    """Asks as one conversation, with no client library between."""

    def __init__(self, provider: LoopbackProvider, client: httpx.Client) -> None:
        self.provider = provider
        self.client = client

    def chat(self, *messages: object, key: str = "key", **fields: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        body = {"model": "m", "messages": messages, **fields}
        return self.client.post(f"{self.provider.openai_url}/chat/completions", headers=headers, json=body)

    def anthropic(self, *messages: object, key: str = "key", **fields: object) -> httpx.Response:
        body = {"model": "m", "max_tokens": 100, "messages": messages, **fields}
        url = f"{self.provider.anthropic_url}/v1/messages"
        return self.client.post(url, headers={"x-api-key": key}, json=body)


@pytest.fixture
def ask(provider: LoopbackProvider, client: httpx.Client) -> Caller:
    return Caller(provider, client)


# -- answers


def test_plays_the_answers_in_order_and_then_a_last_one(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", answers=[Answer("Let me see.", (WEATHER, WEATHER)), Answer("Sunny.")])
    first, second, third = (ask.chat(USER).json()["choices"][0] for _ in range(3))
    assert first["message"]["content"] == "Let me see."
    assert [call["function"]["name"] for call in first["message"]["tool_calls"]] == ["weather", "weather"]
    assert json.loads(first["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
    assert len({call["id"] for call in first["message"]["tool_calls"]}) == 2
    assert first["finish_reason"] == "tool_calls"
    assert (second["message"]["content"], second["finish_reason"]) == ("Sunny.", "stop")
    assert third["message"]["content"] == "Done."
    assert side.remaining == 0


def test_plays_the_same_answers_in_anthropic_blocks(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key", answers=[Answer("Let me see.", (WEATHER,)), Answer("Sunny.")])
    first, second = (ask.anthropic(USER).json() for _ in range(2))
    assert first["content"][0] == {"type": "text", "text": "Let me see."}
    assert (first["content"][1]["name"], first["content"][1]["input"]) == ("weather", {"city": "Paris"})
    assert (first["stop_reason"], second["stop_reason"]) == ("tool_use", "end_turn")


def test_notes_what_it_received(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key")
    ask.chat({"role": "system", "content": "Be brief."}, USER, tools=[{"type": "function"}])
    ask.anthropic(USER, system=[{"type": "text", "text": "Be brief."}])
    chat, anthropic = side.requests
    assert [request.path for request in side.requests] == ["/v1/chat/completions", "/v1/messages"]
    assert chat.system == anthropic.system == "Be brief."
    assert (chat.tools, chat.messages[1], chat.body["model"]) == ([{"type": "function"}], USER, "m")
    assert chat.input_tokens > anthropic.input_tokens > 0
    assert [request.status for request in side.requests] == [200, 200]


def test_answers_may_state_their_own_ending_and_usage(provider: LoopbackProvider, ask: Caller) -> None:
    cut = Answer("Sun", stop="length", usage=Usage(input_tokens=9, output_tokens=1))
    provider.conversation("key", answers=[cut, cut])
    chat, anthropic = ask.chat(USER).json(), ask.anthropic(USER).json()
    assert (chat["choices"][0]["finish_reason"], anthropic["stop_reason"]) == ("length", "max_tokens")
    assert (chat["usage"]["prompt_tokens"], anthropic["usage"]["input_tokens"]) == (9, 9)


def test_a_scripted_rejection_takes_the_place_of_an_answer(provider: LoopbackProvider, ask: Caller) -> None:
    busy = Rejection(429, {"error": {"message": "Too many requests", "code": "rate_limit_exceeded"}})
    side = provider.conversation("key", answers=[busy, Answer("Sunny.")])
    assert ask.chat(USER).status_code == 429
    assert ask.chat(USER).json()["choices"][0]["message"]["content"] == "Sunny."
    assert side.rejections == side.requests[:1]


def test_a_summary_request_uses_up_no_answer(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", answers=[Answer("Sunny.")])
    side.summary_text = "## Goal\n- the weather"
    answer = ask.chat({"role": "system", "content": SYSTEM_PROMPT}, USER).json()
    assert answer["choices"][0]["message"]["content"] == "## Goal\n- the weather"
    assert ask.anthropic(USER, system=SYSTEM_PROMPT).json()["content"][0]["text"] == "## Goal\n- the weather"
    assert (side.remaining, side.model_requests, [request.is_summary for request in side.requests]) == (
        1,
        [],
        [True] * 2,
    )
    side.fail_summaries = True
    assert ask.chat({"role": "system", "content": SYSTEM_PROMPT}, USER).status_code == 500
    assert ask.chat(USER).json()["choices"][0]["message"]["content"] == "Sunny."


def test_two_conversations_interleaved_do_not_mix(provider: LoopbackProvider, ask: Caller) -> None:
    sides = {key: provider.conversation(key, answers=[Answer(f"{key} 1"), Answer(f"{key} 2")]) for key in ("a", "b")}
    texts = [ask.chat(USER, key=key).json()["choices"][0]["message"]["content"] for key in ("a", "b", "b", "a")]
    assert texts == ["a 1", "b 1", "b 2", "a 2"]
    assert [len(side.requests) for side in sides.values()] == [2, 2]


def test_an_unknown_key_is_refused(ask: Caller) -> None:
    chat, anthropic = ask.chat(USER, key="nobody's"), ask.anthropic(USER, key="nobody's")
    assert (chat.status_code, chat.json()["error"]["code"]) == (401, "invalid_api_key")
    assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (401, "authentication_error")


# -- too long


def test_rejects_from_one_token_above_the_window(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key")
    ask.chat(USER)
    side.window = side.requests[0].input_tokens
    assert ask.chat(USER).status_code == 200
    side.window -= 1
    answer = ask.chat(USER)
    assert answer.status_code == 400
    assert f"{side.window} tokens" in answer.json()["error"]["message"]
    assert side.rejections == side.requests[2:]


@pytest.mark.parametrize("wording", WORDINGS)
def test_each_wording_is_an_overflow_with_the_numbers_it_states(
    wording: str, provider: LoopbackProvider, ask: Caller
) -> None:
    side = provider.conversation("key", window=1_000, wording=wording)
    answer = ask.chat(LONG_USER, max_tokens=500)
    assert answer.status_code == WORDINGS[wording].status
    if wording == "cerebras":  # whose rejection has no body
        assert answer.content == b""
        return
    info = parse_overflow(answer.json(), status=answer.status_code)
    assert info is not None
    assert info.kind == "context_overflow"
    text, received = WORDINGS[wording].text, side.requests[0]
    assert info.limit_tokens == (1_000 if "{limit}" in text else None)
    size = received.input_tokens + (500 if "{output}" in text else 0)
    assert info.actual_tokens == (size if "{input}" in text else None)


def test_a_wording_that_counts_the_output_rejects_a_sum(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key", window=1_000, wording="anthropic_sum")
    assert ask.anthropic(USER, max_tokens=900).status_code == 200
    answer = ask.anthropic(USER, max_tokens=1_000)
    assert "exceed context limit" in answer.json()["error"]["message"]
    provider.conversation("key", window=1_000)
    assert ask.anthropic(USER, max_tokens=1_000).status_code == 200


def test_the_default_wording_is_that_of_the_api(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key", window=10)
    assert ask.chat(LONG_USER).json()["error"]["code"] == "context_length_exceeded"
    assert ask.anthropic(LONG_USER).json()["error"]["message"].startswith("prompt is too long: ")


def test_an_unknown_wording_is_refused_at_once(provider: LoopbackProvider) -> None:
    with pytest.raises(ValueError, match="is not one of openai"):
        provider.conversation("key", wording="opanai")


def test_silent_truncation_answers_and_tells_the_whole_input(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key", window=1_000, overflow="truncate", answers=[Answer("Sunny.")])
    answer = ask.chat(LONG_USER).json()
    assert answer["choices"][0]["message"]["content"] == "Sunny."
    assert answer["usage"]["prompt_tokens"] > 1_000


@pytest.mark.parametrize(
    ("overflow", "chat_stop", "anthropic_stop"),
    [
        pytest.param("length", "length", "max_tokens", id="length"),
        pytest.param("stop_reason", "model_context_window_exceeded", "model_context_window_exceeded", id="stop reason"),
    ],
)
def test_an_overflow_may_be_an_empty_answer(
    overflow: Any, chat_stop: str, anthropic_stop: str, provider: LoopbackProvider, ask: Caller
) -> None:
    side = provider.conversation("key", window=1_000, overflow=overflow, answers=[Answer("Sunny.")])
    chat, anthropic = ask.chat(LONG_USER).json(), ask.anthropic(LONG_USER).json()
    assert (chat["choices"][0]["finish_reason"], anthropic["stop_reason"]) == (chat_stop, anthropic_stop)
    assert (chat["usage"]["completion_tokens"], anthropic["usage"]["output_tokens"]) == (0, 0)
    assert (chat["choices"][0]["message"]["content"], anthropic["content"]) == (None, [])
    assert side.remaining == 1


def test_the_window_may_cut_an_answer_that_it_has_no_room_for(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=120, overflow="cut", answers=[Answer("Sunny and warm. " * 200)])
    chat, anthropic = ask.chat(USER).json(), ask.anthropic(USER).json()
    assert chat["choices"][0]["finish_reason"] == "length"
    assert anthropic["stop_reason"] == "model_context_window_exceeded"
    assert chat["usage"]["total_tokens"] == 120
    assert side.remaining == 1
    assert ask.chat(LONG_USER).status_code == 400


def test_a_request_may_have_too_many_bytes(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=100_000, answers=[Answer("Sunny.")])
    side.limit_bytes = 5_000
    assert [ask.chat(message).status_code for message in (USER, LONG_USER)] == [200, 413]


def test_the_next_requests_can_be_rejected_whatever_their_size(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", answers=[Answer("Sunny.")])
    side.reject_next = 2
    assert ask.chat({"role": "system", "content": SYSTEM_PROMPT}, USER).status_code == 200
    assert [ask.chat(USER).status_code for _ in range(3)] == [400, 400, 200]
    assert [request.status for request in side.rejections] == [400, 400]


# -- malformed


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        pytest.param([], "empty array", id="no message"),
        pytest.param([USER, CHAT_RESULT], "must be a response to a preceeding message", id="result without call"),
        pytest.param([USER, CHAT_CALLS, USER], "did not have response messages: c1", id="call without result"),
        pytest.param([USER, CHAT_CALLS], "did not have response messages: c1", id="call at the end"),
        pytest.param(
            [USER, CHAT_CALLS, {**CHAT_RESULT, "tool_call_id": "c2"}],
            "'tool_call_id' of 'c2' not found",
            id="unknown id",
        ),
        pytest.param(
            [USER, CHAT_CALLS, CHAT_RESULT, CHAT_RESULT], "'tool_call_id' of 'c1' not found", id="result twice"
        ),
        pytest.param([{"role": "user", "content": None}], "expected a string, got null", id="no content"),
        pytest.param([USER, {"role": "assistant"}], "expected a string, got null", id="neither text nor call"),
        pytest.param([{"role": "robot", "content": "beep"}], "Invalid value: 'robot'", id="unknown role"),
    ],
)
def test_openai_refuses_what_is_malformed(
    messages: list[object], says: str, provider: LoopbackProvider, ask: Caller
) -> None:
    side = provider.conversation("key", answers=[Answer("Sunny.")])
    answer = ask.chat(*messages)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert (len(side.rejections), side.remaining) == (1, 1)


def test_openai_accepts_parallel_results_in_any_order_and_users_in_a_row(
    provider: LoopbackProvider, ask: Caller
) -> None:
    provider.conversation("key")
    calls = {**CHAT_CALLS, "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "c2"}]}
    results = [{**CHAT_RESULT, "tool_call_id": "c2"}, CHAT_RESULT]
    assert ask.chat(USER, USER, calls, *results, {"role": "assistant", "content": ""}, USER).status_code == 200


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        pytest.param([], "at least one message is required", id="no message"),
        pytest.param([{"role": "system", "content": "x"}, USER], 'Unexpected role "system"', id="system role"),
        pytest.param([TOOL_USE, USER], 'first message must use the "user" role', id="assistant first"),
        pytest.param([USER, {"role": "assistant", "content": "Sun"}], "must end with a user message", id="prefill"),
        pytest.param([USER, {"role": "user", "content": ""}], "must have non-empty content", id="empty content"),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": ""}]}], "blocks must be non-empty", id="empty block"
        ),
        pytest.param([{"role": "user", "content": "\n "}], "must contain non-whitespace text", id="white space"),
        pytest.param([USER, TOOL_USE, USER], "without `tool_result` blocks immediately after: c1", id="call alone"),
        pytest.param(
            [USER, TOOL_USE, USER, {"role": "user", "content": [TOOL_RESULT]}],
            "without `tool_result` blocks immediately after: c1",
            id="text before the result",
        ),
        pytest.param([USER, {"role": "user", "content": [TOOL_RESULT]}], "unexpected `tool_use_id`", id="result alone"),
        pytest.param(
            [USER, TOOL_USE, {"role": "user", "content": [TOOL_RESULT]}] * 2, "ids must be unique", id="id used twice"
        ),
    ],
)
def test_anthropic_refuses_what_is_malformed(
    messages: list[object], says: str, provider: LoopbackProvider, ask: Caller
) -> None:
    provider.conversation("key")
    answer = ask.anthropic(*messages)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_anthropic_reads_users_in_a_row_as_one(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key")
    assert ask.anthropic(USER, USER, TOOL_USE, {"role": "user", "content": [TOOL_RESULT]}, USER).status_code == 200


# -- usage


def test_usage_tells_the_input_and_what_the_cache_read_of_it(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=100_000)
    first, grown, other = (
        ask.chat(*messages).json()["usage"] for messages in ([LONG_USER], [LONG_USER, USER], [USER, LONG_USER])
    )
    assert first["prompt_tokens"] == side.requests[0].input_tokens
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    cached = grown["prompt_tokens_details"]["cached_tokens"]
    assert (cached % 128, cached <= first["prompt_tokens"] < cached + 128) == (0, True)
    assert side.requests[1].cached_tokens == cached
    assert other["prompt_tokens_details"]["cached_tokens"] == 0


def test_a_prefix_may_end_inside_a_message(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=100_000)
    ask.chat({"role": "system", "content": "x"}, LONG_USER)
    ask.chat({"role": "system", "content": "x"}, {**LONG_USER, "content": str(LONG_USER["content"])[:8_000] + "!"})
    assert 1_024 <= side.requests[1].cached_tokens < side.requests[0].input_tokens / 2


def test_what_was_rejected_is_not_in_the_cache(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=1_000)
    ask.chat(LONG_USER)
    side.window = 100_000
    ask.chat(LONG_USER)
    assert [request.cached_tokens for request in side.requests] == [0, 0]


def test_anthropic_usage_adds_up_to_the_input(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=100_000)
    _, grown = (ask.anthropic(*messages).json()["usage"] for messages in ([LONG_USER], [LONG_USER, USER]))
    parts = [grown[f"{part}input_tokens"] for part in ("", "cache_read_", "cache_creation_")]
    assert sum(parts) == side.requests[1].input_tokens
    assert grown["cache_read_input_tokens"] == side.requests[1].cached_tokens > 1_024
