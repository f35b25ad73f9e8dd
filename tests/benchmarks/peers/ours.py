"""compaction-hooks, through the plain hook and with OpenAI messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_hooks import CompactionController, SummaryRequest, Usage
from compaction_hooks.session.controller import DEFAULT_SESSION
from tests.benchmarks.peers.peer import SUMMARY, Chat, Conversation, Peer, Reported, copy_list, is_assistant, itself
from tests.benchmarks.peers.worker import serve


def _summarize(_: SummaryRequest, /) -> str:
    return SUMMARY


class _Ours(Conversation[Chat]):
    def __init__(self, window: int) -> None:
        super().__init__()
        hooks = CompactionController(context_window=window, summarizer=_summarize)
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


PEER = Peer(
    name="compaction-hooks",
    packages=("compaction-hooks",),
    settings="`controller.transform_context(messages)`, defaults: trigger window - 16,384, 20,000 tokens kept",
    open=_Ours,
    convert=copy_list,
    is_answer=is_assistant,
    chats=itself,
    reads_usage=True,
)

if __name__ == "__main__":
    serve(PEER)
