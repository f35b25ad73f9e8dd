"""The floor: the least a hook can do, without any feature."""

from collections.abc import Sequence

from tests.benchmarks.floor import Floor
from tests.benchmarks.peers.peer import Asked, Chat, ChatPeer, Reported, Summarize


class Peer(ChatPeer):
    name = "floor"
    reads_usage = True

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._floor = Floor(window=window, summarize=lambda covered: summarize(lambda: Asked("", covered)))
        self._reported = 0

    def append(self, message: Chat, reported: Reported | None) -> None:
        self.messages.append(message)
        self._reported = reported.input_tokens if reported else self._reported

    async def view(self) -> Sequence[Chat]:
        if self._reported:
            self._floor.report_usage(self._reported)
            self._reported = 0
        return await self._floor.transform_context(self.messages)
