"""The floor: the least a hook can do, without any feature."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.floor import Floor
from tests.benchmarks.peers.peer import SUMMARY, Chat, Conversation, Peer, Reported, copy_list, is_assistant, itself
from tests.benchmarks.peers.worker import serve


class _Floor(Conversation[Chat]):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._floor = Floor(window=window, summarize=lambda _: SUMMARY)
        self._reported = 0

    def append(self, message: Chat, reported: Reported | None) -> None:
        self.messages.append(message)
        self._reported = reported.input_tokens if reported else self._reported

    async def view(self) -> Sequence[Chat]:
        if self._reported:
            self._floor.report_usage(self._reported)
            self._reported = 0
        return await self._floor.transform_context(self.messages)


PEER = Peer(
    name="floor",
    packages=(),
    settings="tests/benchmarks/floor.py: trigger window - 16,384, 20,000 tokens kept, 3 characters a token",
    open=_Floor,
    convert=copy_list,
    is_answer=is_assistant,
    chats=itself,
    reads_usage=True,
)

if __name__ == "__main__":
    serve(PEER)
