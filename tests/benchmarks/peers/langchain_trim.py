"""langchain-core's trim_messages with the arguments of LangGraph's guide to memory: drops the oldest, summarizes nothing."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, trim_messages

from tests.benchmarks.peers.langchain_messages import LangChainPeer

TRIGGER_RATIO = 0.8
"""Share of the window, as in LangChain's examples; it has no default, and its counter counts too little for more."""


class Peer(LangChainPeer):
    name = "LangChain trim_messages"
    packages = ("langchain-core",)

    async def view(self) -> Sequence[BaseMessage]:
        trimmed: Any = trim_messages(
            self.messages,
            max_tokens=int(self.window * TRIGGER_RATIO),
            token_counter="approximate",
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        messages: Sequence[BaseMessage] = trimmed
        return messages
