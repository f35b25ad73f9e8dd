"""LangChain's SummarizationMiddleware: its `abefore_model`, and its update applied to the state."""

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage

from tests.benchmarks.peers.langchain_messages import AgentPeer, chat_model
from tests.benchmarks.peers.peer import RESERVE_TOKENS, Summarize


class Peer(AgentPeer):
    name = "LangChain"
    packages = ("langchain", "langchain-core")
    reads_usage = True
    trigger: ClassVar[Any] = None
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._middleware: Any = SummarizationMiddleware(
            chat_model(window),
            trigger=self.trigger or ("tokens", window - RESERVE_TOKENS),  # it has no default
            summarizer=cast("Any", self._summarize),
            **self.options,
        )

    async def view(self) -> Sequence[BaseMessage]:
        update = await self._middleware.abefore_model({"messages": self.messages}, None)
        if update is not None:
            self.messages = update["messages"][1:]  # the first one removes all earlier messages
        return self.messages

    async def _summarize(self, messages: list[BaseMessage]) -> str:
        start = "Here is a summary of the conversation to date:\n\n"
        return self.summarize_messages(self._middleware, messages, start)
