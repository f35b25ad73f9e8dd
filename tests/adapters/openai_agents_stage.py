"""The provider that the tests of the Agents SDK's adapter talk to, and its models that talk to it."""

import json
from collections.abc import Sequence
from typing import Any

from agents import (
    FunctionTool,
    Model,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    set_tracing_disabled,
)
from httpx import Limits
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from compaction_hooks.testing import ScriptedTool
from tests.adapters.stage import ProviderStage
from tests.provider import LoopbackProvider

set_tracing_disabled(True)  # nothing is sent to OpenAI

_NO_REUSE: Any = Limits(max_keepalive_connections=0)
"""`run_sync` runs in another event loop each time here, where the connections of the one before are of no use."""


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._clients: list[AsyncOpenAI] = []

    def client(self) -> AsyncOpenAI:
        http = DefaultAsyncHttpxClient(limits=_NO_REUSE)
        client = AsyncOpenAI(base_url=self.provider.openai_url, api_key=self.key, max_retries=0, http_client=http)
        self._clients.append(client)
        return client

    def responses(self, model: str = "scripted") -> Model:
        return OpenAIResponsesModel(model, self.client())

    def chat(self, model: str = "scripted") -> Model:
        return OpenAIChatCompletionsModel(model, self.client())

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        await super().close()


def function_tools(tools: Sequence[ScriptedTool]) -> list[Any]:
    """Return scripted tools as the SDK's."""

    def invoker(tool: ScriptedTool) -> Any:
        async def invoke(_: object, arguments: str) -> str:
            return tool.run(json.loads(arguments))

        return invoke

    return [
        FunctionTool(tool.name, tool.description, dict(tool.parameters), invoker(tool), strict_json_schema=False)
        for tool in tools
    ]
