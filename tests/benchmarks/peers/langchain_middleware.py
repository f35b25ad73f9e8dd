"""LangChain's SummarizationMiddleware: its `abefore_model`, and its update applied to the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage

from tests.benchmarks.peers.langchain_messages import LangChainConversation, chat_model, langchain_peer, summarize
from tests.benchmarks.peers.peer import RESERVE_TOKENS
from tests.benchmarks.peers.worker import serve


class _Middleware(LangChainConversation):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._middleware: Any = SummarizationMiddleware(
            chat_model(window), trigger=("tokens", window - RESERVE_TOKENS), summarizer=cast("Any", summarize)
        )

    async def view(self) -> Sequence[BaseMessage]:
        update = await self._middleware.abefore_model({"messages": self.messages}, None)
        if update is not None:
            self.messages = update["messages"][1:]  # the first one removes all earlier messages
        return self.messages


PEER = langchain_peer(
    name="LangChain",
    packages=("langchain", "langchain-core"),
    settings="`SummarizationMiddleware(trigger=('tokens', window - 16,384))` (it has none by default), keeps 20 messages (default)",
    open=_Middleware,
    reads_usage=True,
)

if __name__ == "__main__":
    serve(PEER)
