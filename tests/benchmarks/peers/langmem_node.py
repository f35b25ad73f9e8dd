"""langmem's SummarizationNode, as in its documentation: the graph's state keeps all messages, the node returns a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langmem.short_term import SummarizationNode

from tests.benchmarks.peers.langchain_messages import langchain_peer, report
from tests.benchmarks.peers.peer import RESERVE_TOKENS, SUMMARY, Conversation, Reported
from tests.benchmarks.peers.worker import serve


async def _summarize(_: object) -> AIMessage:
    return AIMessage(SUMMARY)


class _Node(Conversation[BaseMessage]):
    def __init__(self, window: int) -> None:
        super().__init__()
        model: Any = RunnableLambda(_summarize)
        self._node: Any = SummarizationNode(model=model, max_tokens=window - RESERVE_TOKENS, max_summary_tokens=1_000)
        self._context: dict[str, Any] = {}

    def append(self, message: BaseMessage, reported: Reported | None) -> None:
        report(message, reported)
        self.messages.append(message)

    async def view(self) -> Sequence[BaseMessage]:
        update = await self._node.ainvoke({"messages": self.messages, "context": self._context})
        self._context = update.get("context", self._context)
        messages: Sequence[BaseMessage] = update["summarized_messages"]
        return messages


PEER = langchain_peer(
    name="langmem",
    packages=("langmem", "langchain-core"),
    settings="`SummarizationNode(max_tokens=window - 16,384, max_summary_tokens=1_000)`, all messages kept in the state (default)",
    open=_Node,
)

if __name__ == "__main__":
    serve(PEER)
