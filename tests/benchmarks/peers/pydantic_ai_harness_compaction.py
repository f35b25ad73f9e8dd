"""pydantic-ai-harness's SummarizingCompaction: its `before_model_request`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import SummarizingCompaction

from tests.benchmarks.peers.pydantic_ai_messages import SUMMARIZER, PydanticAIConversation, pydantic_ai_peer
from tests.benchmarks.peers.worker import serve


class _Harness(PydanticAIConversation):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._compaction: Any = SummarizingCompaction(SUMMARIZER, max_fraction=0.9, context_window=window)
        # The run's own list: a compaction writes into it.
        self._run = RunContext[None](deps=None, model=SUMMARIZER, usage=RunUsage(), messages=self.messages)
        self._request = ModelRequestContext(
            model=SUMMARIZER,
            messages=self.messages,
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )

    async def view(self) -> Sequence[ModelMessage]:
        request = await self._compaction.before_model_request(self._run, self._request)
        messages: Sequence[ModelMessage] = request.messages
        return messages


PEER = pydantic_ai_peer(
    name="pydantic-ai-harness",
    packages=("pydantic-ai-harness", "pydantic-ai-slim"),
    settings="`SummarizingCompaction(max_fraction=0.9, context_window=window)` as in its README, keeps 20 messages (default)",
    open=_Harness,
    reads_usage=True,
)

if __name__ == "__main__":
    serve(PEER)
