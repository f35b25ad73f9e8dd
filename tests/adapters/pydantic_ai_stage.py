"""The provider that the tests of the pydantic-ai adapter talk to, and models that talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttpxClient
from httpx import Limits
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from compaction_hooks.testing import Answer
from tests.adapters.pydantic_ai_messages import SECRET
from tests.provider import LoopbackProvider, Rejection, Side

WINDOW = 16_384
_NO_REUSE: Any = Limits(max_keepalive_connections=0)
"""`run_sync` may run in another event loop each time, where the connections of the one before are of no use."""


@contextmanager
def own_event_loop() -> Iterator[None]:
    """For `run_sync`, which leaves a loop that it makes itself open."""
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)


class Stage:
    """A provider's side for one test, and models that talk to it."""

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.provider = provider
        self.key = key
        self._clients: list[AsyncOpenAI | AsyncAnthropic] = []

    def side(self, *answers: Answer | Rejection, window: int = WINDOW, key: str = "", **options: Any) -> Side:
        side = self.provider.conversation(self.key + key, window=window, answers=answers, **options)
        side.summary_text = f"## Goal\n- {SECRET}"
        return side

    def openai(self, key: str = "", model: str = "scripted", **options: Any) -> OpenAIChatModel:
        url, http = self.provider.openai_url, DefaultAsyncHttpxClient(limits=_NO_REUSE)
        client = AsyncOpenAI(base_url=url, api_key=self.key + key, max_retries=0, http_client=http)
        self._clients.append(client)
        return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client), **options)

    def anthropic(self, key: str = "", model: str = "scripted", **options: Any) -> AnthropicModel:
        url, http = self.provider.anthropic_url, AnthropicHttpxClient(limits=_NO_REUSE)
        client = AsyncAnthropic(base_url=url, api_key=self.key + key, max_retries=0, http_client=http)
        self._clients.append(client)
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client), **options)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as running:
        yield running


@pytest.fixture
async def stage(provider: LoopbackProvider, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    made = Stage(provider, request.node.name.encode("ascii", "replace").decode())
    yield made
    await made.close()
