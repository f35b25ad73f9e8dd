"""summarization-pydantic-ai's ContextManagerCapability: its `before_model_request`."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_summarization import ContextManagerCapability

from tests.benchmarks.peers.pydantic_ai_messages import SUMMARIZER, PydanticAIConversation, pydantic_ai_peer
from tests.benchmarks.peers.worker import serve


class _Capability(PydanticAIConversation):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._capability: Any = ContextManagerCapability(max_tokens=window, summarization_model=SUMMARIZER)

    async def view(self) -> Sequence[ModelMessage]:
        request = SimpleNamespace(messages=self.messages)
        await self._capability.before_model_request(None, request)
        self.messages = request.messages
        return self.messages


PEER = pydantic_ai_peer(
    name="summarization-pydantic-ai",
    packages=("summarization-pydantic-ai", "pydantic-ai-slim"),
    settings="`ContextManagerCapability(max_tokens=window)`, defaults: trigger 90 %, keeps what is being answered",
    open=_Capability,
)

if __name__ == "__main__":
    serve(PEER)
