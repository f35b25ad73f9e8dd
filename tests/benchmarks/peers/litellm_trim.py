"""LiteLLM's trim_messages: counts with a real tokenizer, shortens and drops messages, summarizes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litellm.utils import trim_messages

from tests.benchmarks.peers.peer import RESERVE_TOKENS, Chat, Conversation, Peer, copy_list, is_assistant, itself
from tests.benchmarks.peers.worker import serve


class _Trimmed(Conversation[Chat]):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._max_tokens = window - RESERVE_TOKENS

    async def view(self) -> Sequence[Chat]:
        trimmed: Any = trim_messages(self.messages, model="gpt-4", max_tokens=self._max_tokens)
        messages: Sequence[Chat] = trimmed
        return messages


PEER = Peer(
    name="LiteLLM trim_messages",
    packages=("litellm",),
    settings="`trim_messages(messages, model='gpt-4', max_tokens=window - 16,384)`; it summarises nothing",
    open=_Trimmed,
    convert=copy_list,
    is_answer=is_assistant,
    chats=itself,
    plays_sessions=False,  # when the window is full, every older message has all others counted again: minutes a call
)

if __name__ == "__main__":
    serve(PEER)
