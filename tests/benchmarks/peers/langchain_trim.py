"""langchain-core's trim_messages with its approximate counter: drops the oldest messages, summarizes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, trim_messages

from tests.benchmarks.peers.langchain_messages import langchain_peer, report
from tests.benchmarks.peers.peer import RESERVE_TOKENS, Conversation, Reported
from tests.benchmarks.peers.worker import serve


class _Trimmed(Conversation[BaseMessage]):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._max_tokens = window - RESERVE_TOKENS

    def append(self, message: BaseMessage, reported: Reported | None) -> None:
        report(message, reported)
        self.messages.append(message)

    async def view(self) -> Sequence[BaseMessage]:
        trimmed: Any = trim_messages(
            self.messages,
            max_tokens=self._max_tokens,
            token_counter="approximate",
            strategy="last",
            start_on="human",
            include_system=True,
        )
        messages: Sequence[BaseMessage] = trimmed
        return messages


PEER = langchain_peer(
    name="langchain-core trim_messages",
    packages=("langchain-core",),
    settings="`trim_messages(max_tokens=window - 16,384, token_counter='approximate', strategy='last', start_on='human', "
    "include_system=True)`; it summarises nothing",
    open=_Trimmed,
    sampled_calls=200,
)

if __name__ == "__main__":
    serve(PEER)
