"""compaction-hooks, through the plain hook and with OpenAI messages."""

from collections.abc import Sequence
from typing import Any

from compaction_hooks import CompactionController, Usage
from compaction_hooks.session.controller import DEFAULT_SESSION
from tests.benchmarks.peers.peer import Asked, Chat, ChatPeer, Reported, Summarize


class Peer(ChatPeer):
    name = "compaction-hooks"
    packages = ("compaction-hooks",)
    reads_usage = True

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        hooks = CompactionController(
            context_window=window, summarizer=lambda request: summarize(lambda: Asked(request.prompt))
        )
        self._transform: Any = hooks.transform_context  # typed for read-only mappings, which these dicts are too
        self._session = hooks.session(DEFAULT_SESSION)
        self._usage: Usage | None = None

    def append(self, message: Chat, reported: Reported | None) -> None:
        self.messages.append(message)
        if reported:
            self._usage = Usage(input_tokens=reported.input_tokens, output_tokens=reported.output_tokens)

    async def view(self) -> Sequence[Chat]:
        if self._usage:  # a usage report is our own work, so it is timed
            self._session.report_usage(self._usage)
            self._usage = None
        view: Sequence[Chat] = await self._transform(self.messages)
        return view
