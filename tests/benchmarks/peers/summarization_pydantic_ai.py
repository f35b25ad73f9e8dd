"""summarization-pydantic-ai's ContextManagerCapability with its defaults: its `before_model_request`."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_summarization import ContextManagerCapability

from tests.benchmarks.peers.peer import Summarize
from tests.benchmarks.peers.pydantic_ai_messages import PydanticAIPeer


class Peer(PydanticAIPeer):
    name = "summarization-pydantic-ai"
    packages = ("summarization-pydantic-ai", "pydantic-ai-slim")

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._capability: Any = ContextManagerCapability(max_tokens=window, summarization_model=self.model)

    async def view(self) -> Sequence[ModelMessage]:
        request = SimpleNamespace(messages=self.messages)
        await self._capability.before_model_request(None, request)
        self.messages = request.messages
        return self.messages
