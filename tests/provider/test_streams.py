"""What the loopback provider streams, as the clients of openai and anthropic read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from compaction_hooks import is_context_overflow
from tests.provider import Answer, Call, LoopbackProvider, Rejection

USER = {"role": "user", "content": "How is the weather in Paris?"}
SPOKEN = Answer("Let me see what the weather is like in Paris.", (Call("weather", {"city": "Paris", "days": 3}),))
BUSY = Rejection(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


@pytest.fixture
def openai_client(provider: LoopbackProvider) -> Iterator[Any]:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=provider.openai_url, api_key="key", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic_client(provider: LoopbackProvider) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="key", max_retries=0) as client:
        yield client


def chunks(client: Any, **fields: object) -> Iterator[Any]:
    """What the openai client streams."""
    with client.chat.completions.create(model="m", messages=[USER], stream=True, **fields) as stream:
        yield from stream


def test_openai_reads_text_calls_and_ending(provider: LoopbackProvider, openai_client: Any) -> None:
    side = provider.conversation("key", answers=[SPOKEN])
    choices = [chunk.choices[0] for chunk in chunks(openai_client)]
    texts = [choice.delta.content for choice in choices if choice.delta.content]
    assert len(texts) > 1
    assert "".join(texts) == SPOKEN.text
    calls = [call for choice in choices for call in choice.delta.tool_calls or ()]
    assert [call.id for call in calls if call.id] == ["call_0000"]
    assert "".join(call.function.arguments for call in calls) == '{"city": "Paris", "days": 3}'
    assert choices[-1].finish_reason == "tool_calls"
    assert side.requests[0].is_stream


def test_openai_gets_usage_in_a_stream_only_when_it_asks(provider: LoopbackProvider, openai_client: Any) -> None:
    side = provider.conversation("key", answers=[SPOKEN, SPOKEN])
    assert [chunk.usage for chunk in chunks(openai_client) if chunk.usage] == []
    usages = [chunk.usage for chunk in chunks(openai_client, stream_options={"include_usage": True}) if chunk.usage]
    assert [usage.prompt_tokens for usage in usages] == [side.requests[1].input_tokens]


def test_openai_reads_a_rejected_stream_as_an_error(provider: LoopbackProvider, openai_client: Any) -> None:
    import openai

    provider.conversation("key", window=1)
    with pytest.raises(openai.BadRequestError) as caught:
        next(chunks(openai_client))
    assert is_context_overflow(caught.value)


@pytest.mark.parametrize("count", [pytest.param(0, id="before the first chunk"), pytest.param(2, id="after two")])
def test_openai_reads_an_error_amid_a_stream(count: int, provider: LoopbackProvider, openai_client: Any) -> None:
    import openai

    side = provider.conversation("key", answers=[SPOKEN])
    side.stream_fail_after = count
    stream = chunks(openai_client)
    seen: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        seen.extend(chunk.choices[0].delta.content for chunk in stream)
    assert is_context_overflow(caught.value)
    assert len(seen) == count
    assert [request.status for request in side.requests] == [200]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks(openai_client)) == SPOKEN.text


def test_anthropic_reads_text_calls_ending_and_usage(provider: LoopbackProvider, anthropic_client: Any) -> None:
    side = provider.conversation("key", answers=[SPOKEN])
    with anthropic_client.messages.stream(model="m", max_tokens=100, messages=[USER]) as stream:
        texts = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(texts) > 1
    assert "".join(texts) == SPOKEN.text
    assert (message.content[1].name, message.content[1].input) == ("weather", {"city": "Paris", "days": 3})
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens == side.requests[0].input_tokens
    assert message.usage.output_tokens > 10


def test_anthropic_reads_a_rejection_as_an_error(provider: LoopbackProvider, anthropic_client: Any) -> None:
    import anthropic

    provider.conversation("key", window=1)
    with pytest.raises(anthropic.BadRequestError) as caught:
        anthropic_client.messages.create(model="m", max_tokens=100, messages=[USER])
    assert is_context_overflow(caught.value)


@pytest.mark.parametrize("count", [pytest.param(0, id="before the first chunk"), pytest.param(3, id="after three")])
def test_anthropic_reads_an_error_amid_a_stream(count: int, provider: LoopbackProvider, anthropic_client: Any) -> None:
    import anthropic

    side = provider.conversation("key", answers=[SPOKEN])
    side.stream_fail_after, side.stream_error = count, BUSY
    kinds: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        anthropic_client.messages.create(model="m", max_tokens=100, messages=[USER], stream=True) as stream,
    ):
        kinds.extend(event.type for event in stream)
    assert (len(kinds), side.remaining) == (count, 1)
