"""The loopback provider behaves like real ones, for plain HTTP and for the clients of openai and anthropic."""

from collections.abc import Iterator

import pytest

pytest.importorskip("httpx")

import httpx

from tests.cases import folded
from tests.provider import Answer, LoopbackProvider

USER = {"role": "user", "content": "How is the weather in Paris?"}
LONG_USER = {"role": "user", "content": "line of the log\n" * 1_500}
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
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


class Caller:
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


def test_a_wording_that_counts_the_output_rejects_a_sum(provider: LoopbackProvider, ask: Caller) -> None:
    provider.conversation("key", window=1_000, wording="anthropic_sum")
    assert ask.anthropic(USER, max_tokens=900).status_code == 200
    answer = ask.anthropic(USER, max_tokens=1_000)
    assert "exceed context limit" in answer.json()["error"]["message"]
    provider.conversation("key", window=1_000)
    assert ask.anthropic(USER, max_tokens=1_000).status_code == 200


# -- malformed


@folded(
    "messages, says",
    {
        "no message": ([], "empty array"),
        "result without call": ([USER, CHAT_RESULT], "must be a response to a preceeding message"),
        "call without result": ([USER, CHAT_CALLS, USER], "did not have response messages: c1"),
        "call at the end": ([USER, CHAT_CALLS], "did not have response messages: c1"),
        "unknown id": ([USER, CHAT_CALLS, {**CHAT_RESULT, "tool_call_id": "c2"}], "'tool_call_id' of 'c2' not found"),
        "result twice": ([USER, CHAT_CALLS, CHAT_RESULT, CHAT_RESULT], "'tool_call_id' of 'c1' not found"),
        "no content": ([{"role": "user", "content": None}], "expected a string, got null"),
        "neither text nor call": ([USER, {"role": "assistant"}], "expected a string, got null"),
        "unknown role": ([{"role": "robot", "content": "beep"}], "Invalid value: 'robot'"),
    },
)
def test_openai_refuses_malformed_requests(
    messages: list[object], says: str, provider: LoopbackProvider, ask: Caller
) -> None:
    side = provider.conversation("key", answers=[Answer("Sunny.")])
    answer = ask.chat(*messages)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert (len(side.rejections), side.remaining) == (1, 1)


@folded(
    "messages, says",
    {
        "no message": ([], "at least one message is required"),
        "system role": ([{"role": "system", "content": "x"}, USER], 'Unexpected role "system"'),
        "assistant first": ([TOOL_USE, USER], 'first message must use the "user" role'),
        "prefill": ([USER, {"role": "assistant", "content": "Sun"}], "must end with a user message"),
        "empty content": ([USER, {"role": "user", "content": ""}], "must have non-empty content"),
        "empty block": ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "blocks must be non-empty"),
        "white space": ([{"role": "user", "content": "\n "}], "must contain non-whitespace text"),
        "call alone": ([USER, TOOL_USE, USER], "without `tool_result` blocks immediately after: c1"),
        "text before the result": (
            [USER, TOOL_USE, USER, {"role": "user", "content": [TOOL_RESULT]}],
            "without `tool_result` blocks immediately after: c1",
        ),
        "result alone": ([USER, {"role": "user", "content": [TOOL_RESULT]}], "unexpected `tool_use_id`"),
        "id used twice": ([USER, TOOL_USE, {"role": "user", "content": [TOOL_RESULT]}] * 2, "ids must be unique"),
    },
)
def test_anthropic_refuses_malformed_requests(
    messages: list[object], says: str, provider: LoopbackProvider, ask: Caller
) -> None:
    provider.conversation("key")
    answer = ask.anthropic(*messages)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


# -- usage


def test_usage_has_the_input_and_its_cached_part(provider: LoopbackProvider, ask: Caller) -> None:
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


def test_anthropic_usage_adds_up_to_the_input(provider: LoopbackProvider, ask: Caller) -> None:
    side = provider.conversation("key", window=100_000)
    _, grown = (ask.anthropic(*messages).json()["usage"] for messages in ([LONG_USER], [LONG_USER, USER]))
    parts = [grown[f"{part}input_tokens"] for part in ("", "cache_read_", "cache_creation_")]
    assert sum(parts) == side.requests[1].input_tokens
    assert grown["cache_read_input_tokens"] == side.requests[1].cached_tokens > 1_024
