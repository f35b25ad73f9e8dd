"""langchain-core's trim_messages with the arguments of LangGraph's guide to memory: drops the oldest, summarizes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, trim_messages

from tests.benchmarks.peers.langchain_messages import LangChainPeer
from tests.benchmarks.peers.peer import RESERVE_TOKENS


class Peer(LangChainPeer):
    name = "LangChain trim_messages"
    packages = ("langchain-core",)

    async def view(self) -> Sequence[BaseMessage]:
        trimmed: Any = trim_messages(
            self.messages,
            max_tokens=self.window - RESERVE_TOKENS,
            token_counter="approximate",
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        messages: Sequence[BaseMessage] = trimmed
        return messages
