"""Models as summarizers, over HTTP: what they are asked, and what their summaries get back if they drop it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai

from compaction_hooks import Summary, SummaryRequest
from tests.careless_model import check
from tests.provider import LoopbackProvider


async def test_a_function_with_a_client_of_openai(provider: LoopbackProvider) -> None:
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="careless", max_retries=0) as client:

        async def summarize(request: SummaryRequest) -> str:
            messages: list[Any] = [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.prompt},
            ]
            answer = await client.chat.completions.create(model="m", messages=messages)
            return answer.choices[0].message.content or ""

        await check(summarize, provider.conversation("careless"))


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
