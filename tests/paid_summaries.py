"""A summarizer that records its requests and summaries, to find those paid for twice."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from compaction_hooks import CompactionRecord, Summarizer, Summary, SummaryRequest


@dataclass(frozen=True, slots=True)
class PaidSummary:
    """A request with its summary."""

    request: SummaryRequest
    text: str

    def is_in(self, record: CompactionRecord) -> bool:
        """Whether the summary is a record's summary, or a part of it."""
        text = self.text.strip()
        return bool(text) and text in record.summary

    def asks_the_same(self, other: PaidSummary) -> bool:
        """Whether two requests have the same messages, earlier summary and focus."""
        one, two = self.request, other.request
        return (one.kind, one.previous_summary, one.focus) == (
            two.kind,
            two.previous_summary,
            two.focus,
        ) and one.messages == two.messages


class AskedSummaries:
    """Wrapper of a sync summarizer that records its requests and summaries.

    Attributes:
        answered: Requests with their summaries, oldest first. Failed requests are not among them: they cost nothing.
    """

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer
        self.answered: list[PaidSummary] = []

    def __call__(self, request: SummaryRequest) -> str | Summary:
        """Return the summary of the wrapped summarizer."""
        answer = self._summarizer(request)
        assert not isinstance(answer, Awaitable)
        self.answered.append(PaidSummary(request, answer if isinstance(answer, str) else answer.text))
        return answer

    def find_repeated(self, since: int, records: Sequence[CompactionRecord]) -> list[PaidSummary]:
        """Return the requests from number `since` on that repeat an earlier one whose summary is in one of these records."""
        old, new = self.answered[:since], self.answered[since:]
        known = [asked for asked in old if any(asked.is_in(record) for record in records)]
        return [asked for asked in new if any(asked.asks_the_same(before) for before in known)]
