"""langmem's SummarizationNode, as in its documentation: the graph's state keeps all messages, the node returns a view."""

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages, get_buffer_string
from langchain_core.runnables import RunnableLambda
from langmem.short_term import SummarizationNode

from tests.benchmarks.peers.langchain_messages import LangChainPeer
from tests.benchmarks.peers.peer import RESERVE_TOKENS, Asked, Summarize

_PREVIOUS = re.compile(r"^This is summary of the conversation so far: (.*)\n\nExtend this", re.DOTALL)


class Peer(LangChainPeer):
    name = "langmem"
    packages = ("langmem", "langchain-core")

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        model: Any = RunnableLambda(self._summarize)
        self._node: Any = SummarizationNode(model=model, max_tokens=window - RESERVE_TOKENS, max_summary_tokens=1_000)
        self._context: dict[str, Any] = {}

    async def view(self) -> Sequence[BaseMessage]:
        update = await self._node.ainvoke({"messages": self.messages, "context": self._context})
        self._context = update.get("context", self._context)
        messages: Sequence[BaseMessage] = update["summarized_messages"]
        return messages

    async def _summarize(self, asked: list[BaseMessage]) -> AIMessage:
        def request() -> Asked:
            *messages, instruction = asked
            previous = _PREVIOUS.search(instruction.text)
            return Asked(get_buffer_string(asked), convert_to_openai_messages(messages), previous and previous[1])

        return AIMessage(self.summarize(request))
