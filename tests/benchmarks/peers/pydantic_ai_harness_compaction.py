"""pydantic-ai-harness's SummarizingCompaction, as in its README: its `before_model_request`."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import SummarizingCompaction

from tests.benchmarks.peers.peer import Summarize
from tests.benchmarks.peers.pydantic_ai_messages import PydanticAIPeer


class Peer(PydanticAIPeer):
    name = "pydantic-ai-harness"
    packages = ("pydantic-ai-harness", "pydantic-ai-slim")
    reads_usage = True

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._compaction: Any = SummarizingCompaction(self.model, max_fraction=0.9, context_window=window)
        # The run's own list: a compaction writes into it.
        self._run = RunContext[None](deps=None, model=self.model, usage=RunUsage(), messages=self.messages)
        self._request = ModelRequestContext(
            model=self.model,
            messages=self.messages,
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )

    async def view(self) -> Sequence[ModelMessage]:
        request = await self._compaction.before_model_request(self._run, self._request)
        messages: Sequence[ModelMessage] = request.messages
        return messages
