"""Models as summarizers, over HTTP: what they are asked, and what their summaries get back if they drop it."""

from functools import partial
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai

from compaction_hooks import CompactionController, Summary, SummaryRequest
from compaction_hooks.runtime.guarded_call import helper_loop
from tests.careless_model import check
from tests.cases import sampled
from tests.conversations import talk
from tests.provider import LoopbackProvider


async def test_a_function_with_a_client_of_openai(provider: LoopbackProvider) -> None:
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="careless", max_retries=0) as client:
        await check(partial(ask_openai, client), provider.conversation("careless"))


async def test_a_function_with_a_blocking_client_of_anthropic(provider: LoopbackProvider) -> None:
    with anthropic.Anthropic(base_url=provider.anthropic_url, api_key="blocking", max_retries=0) as client:

        def summarize(request: SummaryRequest) -> Summary:
            asked: Any = {"role": "user", "content": request.prompt}
            answer = client.messages.create(
                model="m", system=request.system, messages=[asked], max_tokens=request.max_tokens
            )
            text = "".join(block.text for block in answer.content if block.type == "text")
            return Summary(text=text, usage=answer.usage.model_dump(), finish_reason=answer.stop_reason)

        await check(summarize, provider.conversation("blocking"))


async def ask_openai(client: openai.AsyncOpenAI, request: SummaryRequest) -> str:
    asked: list[Any] = [{"role": "system", "content": request.system}, {"role": "user", "content": request.prompt}]
    answer = await client.chat.completions.create(model="m", messages=asked)
    return answer.choices[0].message.content or ""


async def ask_anthropic(client: anthropic.AsyncAnthropic, request: SummaryRequest) -> str:
    asked: Any = {"role": "user", "content": request.prompt}
    answer = await client.messages.create(model="m", system=request.system, messages=[asked], max_tokens=900)
    return "".join(block.text for block in answer.content if block.type == "text")


@pytest.mark.parametrize("api", sampled(["openai", "anthropic"], 1))
def test_sync_calls_pay_a_shared_async_client_once_for_a_summary(provider: LoopbackProvider, api: str) -> None:
    """A connection of an event loop that has ended is of no use to the next call: the client would send again."""
    side = provider.conversation(api)
    client: Any
    ask: Any
    client, ask = (
        (openai.AsyncOpenAI(base_url=provider.openai_url, api_key=api), ask_openai)
        if api == "openai"
        else (anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key=api), ask_anthropic)
    )
    hooks = CompactionController(context_window=200_000, summarizer=partial(ask, client))
    try:
        for number in range(7):
            assert hooks.session(str(number)).compact_sync(talk(20), keep_recent_tokens=300).record
        assert len(side.requests) == 7
    finally:
        helper_loop().run(client.close(), 10.0)
