"""A summariser under observation: what it was asked, what it answered, and whether anything was paid for twice."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from compaction_hooks import CompactionRecord, Summarizer, Summary, SummaryRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that was answered.

    Attributes:
        text: The answer.
    """

    request: SummaryRequest
    text: str

    def is_in(self, record: CompactionRecord) -> bool:
        """Whether the answer is what a record says, or a part of it."""
        text = self.text.strip()
        return bool(text) and text in record.summary

    def asks_the_same(self, other: Asked) -> bool:
        """Whether two questions are about the same messages, on top of the same earlier summary, with the same focus."""
        one, two = self.request, other.request
        return (one.kind, one.previous_summary, one.focus) == (
            two.kind,
            two.previous_summary,
            two.focus,
        ) and one.messages == two.messages


class AskedSummaries:
    """Wraps a sync summariser and remembers every question that it answered.

    Attributes:
        answered: The questions and answers, oldest first. What raised is not among them: nobody paid for it.
    """

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer
        self.answered: list[Asked] = []

    def __call__(self, request: SummaryRequest) -> str | Summary:
        """Answer as the wrapped summariser does.

        Raises:
            TypeError: the summariser is async.
        """
        answer = self._summarizer(request)
        if isinstance(answer, Awaitable):
            raise TypeError("AskedSummaries wraps sync summarisers only")
        self.answered.append(Asked(request, answer if isinstance(answer, str) else answer.text))
        return answer

    def paid_twice(self, since: int, in_force: Sequence[CompactionRecord]) -> list[Asked]:
        """Return the questions from number `since` on whose answer stands in one of these records already."""
        old, new = self.answered[:since], self.answered[since:]
        known = [asked for asked in old if any(asked.is_in(record) for record in in_force)]
        return [asked for asked in new if any(asked.asks_the_same(before) for before in known)]
