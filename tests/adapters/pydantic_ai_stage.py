"""The provider that the tests of the pydantic-ai adapter talk to, and models that talk to it."""

from typing import Any

from anthropic import AsyncAnthropic
from anthropic import DefaultAsyncHttpxClient as AnthropicHttpxClient
from httpx import Limits
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.adapters.stage import WINDOW as WINDOW
from tests.adapters.stage import ProviderStage
from tests.adapters.stage import own_event_loop as own_event_loop
from tests.provider import LoopbackProvider

_NO_REUSE: Any = Limits(max_keepalive_connections=0)
"""`run_sync` may run in another event loop each time, where the connections of the one before are of no use."""


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._clients: list[AsyncOpenAI | AsyncAnthropic] = []

    def openai(self, key: str = "", model: str = "scripted", **options: Any) -> OpenAIChatModel:
        return OpenAIChatModel(model, provider=self._openai_provider(key), **options)

    def responses(self, key: str = "", model: str = "scripted", **options: Any) -> OpenAIResponsesModel:
        return OpenAIResponsesModel(model, provider=self._openai_provider(key), **options)

    def _openai_provider(self, key: str) -> OpenAIProvider:
        url, http = self.provider.openai_url, DefaultAsyncHttpxClient(limits=_NO_REUSE)
        client = AsyncOpenAI(base_url=url, api_key=self.key + key, max_retries=0, http_client=http)
        self._clients.append(client)
        return OpenAIProvider(openai_client=client)

    def anthropic(
        self, key: str = "", model: str = "scripted", host: str = "127.0.0.1", **options: Any
    ) -> AnthropicModel:
        url, http = self.provider.anthropic_url.replace("127.0.0.1", host), AnthropicHttpxClient(limits=_NO_REUSE)
        client = AsyncAnthropic(base_url=url, api_key=self.key + key, max_retries=0, http_client=http)
        self._clients.append(client)
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client), **options)

    def google(self, model: str) -> Model:
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(model, provider=GoogleProvider(client=self.google_client()))

    def bedrock(self, model: str) -> Model:
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.providers.bedrock import BedrockProvider

        return BedrockConverseModel(model, provider=BedrockProvider(bedrock_client=self.bedrock_client()))

    async def close(self) -> None:
        await super().close()
        for client in self._clients:
            await client.close()
