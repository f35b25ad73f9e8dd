"""The least a compaction hook can do: the floor that the benchmarks measure against.

It adds up sizes of new messages only, checks with one comparison that the old ones are unchanged, and finds the cut by
bisection. It has no other feature: no pins, no validity checks, no undo, no records, no handling of summarizer failures.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Chat: TypeAlias = dict[str, Any]

RESERVE_TOKENS = 16_384
KEEP_RECENT_TOKENS = 20_000
CHARS_PER_TOKEN = 3
"""Characters for a token: fewer than in English or Python, so that no request exceeds the window; about as in lists and JSON."""


class Floor:
    """A hook for one conversation, whose first message is its system prompt."""

    def __init__(self, *, window: int, summarize: Callable[[Sequence[Chat]], str]) -> None:
        self._threshold = window - RESERVE_TOKENS
        self._summarize = summarize
        self._start_over()

    async def transform_context(self, messages: list[Chat]) -> list[Chat]:
        """Return the list to send: the list itself, or system prompt, summary and later messages."""
        self._append(messages)
        if self._live != (messages[self._start :] if self._start else messages):
            self._start_over()
            self._append(messages)
        if self._counted + self._sums[-1] - self._sums[self._counted_at] > self._threshold:
            self._compact(messages)
        return [*self._head, *self._live] if self._start else messages

    def report_usage(self, input_tokens: int) -> None:
        """Use the provider's size of the last request instead of its characters."""
        self._counted, self._counted_at = input_tokens, len(self._live)

    def _start_over(self) -> None:
        self._head: list[Chat] = []
        self._live: list[Chat] = []
        self._sums = [0]
        self._start = self._counted = self._counted_at = 0

    def _append(self, messages: list[Chat]) -> None:
        total = self._sums[-1]
        for message in messages[self._start + len(self._live) :]:
            calls = message.get("tool_calls")
            chars = len(message["content"] or "")
            if calls:
                chars += sum(len(call["function"]["arguments"]) for call in calls)
            total += chars // CHARS_PER_TOKEN + 4
            self._sums.append(total)
            self._live.append(message)

    def _compact(self, messages: list[Chat]) -> None:
        cut = bisect_left(self._sums, self._sums[-1] - KEEP_RECENT_TOKENS)
        while cut < len(self._live) and self._live[cut]["role"] == "tool":
            cut += 1
        summary = self._summarize(self._live[:cut])
        self._start, self._live = self._start + cut, self._live[cut:]
        self._head = [messages[0], {"role": "user", "content": summary}]
        head_tokens = (len(messages[0]["content"]) + len(summary)) // CHARS_PER_TOKEN
        self._sums = [size - self._sums[cut] + head_tokens for size in self._sums[cut:]]
        self._counted, self._counted_at = self._sums[0], 0
