"""A side of the provider for one test, and a summarizer: shared by the stages of all frameworks."""

from __future__ import annotations

from typing import Any

from compaction_hooks import Summary, SummaryRequest
from tests.provider import Answer, LoopbackProvider, Rejection, Side

WINDOW = 16_384
SECRET = "KINGFISHER"
"""A word of summaries only."""


class ProviderStage:
    """A provider's side for one test. Each framework adds models that talk to it."""

    window = WINDOW

    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        self.provider = provider
        self.key = key

    def side(self, *answers: Answer | Rejection, window: int | None = None, key: str = "", **options: Any) -> Side:
        side = self.provider.conversation(self.key + key, window=window or self.window, answers=answers, **options)
        side.summary_text = f"## Goal\n- {SECRET}"
        return side


class CountingSummarizer:
    """Writes summaries and keeps the requests for them."""

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        return Summary(text=f"## Goal\n- {SECRET} {len(self.asked)}")
