"""LangChain's ClearToolUsesEdit, which edits a copy of the whole history before each call."""

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from tests.benchmarks.peers.langchain_messages import AgentPeer


class Peer(AgentPeer):
    name = "LangChain ClearToolUsesEdit"
    packages = ("langchain", "langchain-core")

    async def view(self) -> Sequence[BaseMessage]:
        edited: list[Any] = list(self.messages)
        # The default of 100,000 tokens is half of a 200k window.
        ClearToolUsesEdit(trigger=self.window // 2).apply(edited, count_tokens=count_tokens_approximately)
        return edited
