"""The cost of a session's calls, with compaction and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from compaction_hooks import Message, Usage
from compaction_hooks.replay.bills import ESTIMATOR, Bill, Block, PromptCaches, read_blocks
from compaction_hooks.replay.prices import EXAMPLES, Prices, find_prices
from compaction_hooks.replay.recorded import Fields, RecordedSession
from compaction_hooks.replay.replayed import Cost


class Costs:
    """The bills of one replay, by the recorded model's prices, or by those of the examples if they are unknown.

    Args:
        pieces: The session's messages, as its format reads them.
    """

    def __init__(self, session: RecordedSession, pieces: Sequence[Sequence[Message]]) -> None:
        found = find_prices(session.model)
        self._is_recorded = found is not None
        self._prices = (found,) if found else EXAMPLES

        self._session = session
        self._own = {id(message): read_blocks(each) for message, each in zip(session.messages, pieces, strict=True)}
        self._sizes = [sum(block.tokens for block in self._own[id(message)]) for message in session.messages]
        self._made: dict[int, tuple[Fields, list[Block]]] = {}
        self.hidden_tokens = _count_hidden(session, self._sizes)
        self._begin = [_constant_block(session, self.hidden_tokens)]

        # Some recordings have the count of the provider, reasoning included.
        self._output = dict(enumerate(self._sizes)) | {
            call.index: call.usage.output_tokens for call in session.calls if call.usage.output_tokens
        }
        self._cold = _find_cold_calls(session)

        self._empty_caches()
        self._list: list[Block] = [*self._begin]
        self._read = 0
        self._bills: list[list[Bill]] = [[] for _ in self._prices]
        self._bills_without: list[list[Bill]] = [[] for _ in self._prices]
        self._summaries: list[Bill] = []

    def add_call(self, index: int, view: Sequence[Fields], *, fits: bool) -> None:
        """Add the call that produced the message at an index.

        Args:
            fits: Whether the view fits the window; else the provider rejects it, and it costs nothing.
        """
        new = self._session.messages[self._read : index]
        self._list = [*self._list, *(block for message in new for block in self._own[id(message)])]
        self._read = index

        if index in self._cold:
            self._empty_caches()

        if not fits:
            for to in (*self._bills, *self._bills_without):
                to.append(Bill())
            return

        output = self._output[index]
        blocks = [*self._begin, *(block for message in view for block in self._blocks(message))]
        for to, bill in zip(self._bills, self._sent.request(blocks), strict=True):
            to.append(replace(bill, output=output))
        for to, bill in zip(self._bills_without, self._whole.request(self._list), strict=True):
            to.append(replace(bill, output=output))

    def _empty_caches(self) -> None:
        rules = [prices.rules for prices in self._prices]
        self._sent, self._whole = PromptCaches(rules), PromptCaches(rules)

    def _blocks(self, message: Fields) -> list[Block]:
        own = self._own.get(id(message))
        if own is not None:
            return own
        known = self._made.get(id(message))
        if known is None:
            known = self._made[id(message)] = message, read_blocks(self._session.format.read(message))
        return known[1]

    def add_summary(self, usage: Usage | None) -> None:
        """Add the tokens of a compaction's summary, also of one that was refused; None if there is none."""
        if usage is not None:
            self._summaries.append(Bill(asked=usage.input_tokens, summaries=usage.output_tokens))

    def _price_recorded(self, prices: Prices) -> float | None:
        if not self._is_recorded or not self._session.calls:
            return None
        usages = (call.usage for call in self._session.calls)
        return sum(prices.dollars(_bill_of(usage)) for usage in usages)

    def figures(self) -> tuple[Cost, ...]:
        """Return the cost by each of the prices."""
        summaries = sum(self._summaries, start=Bill())
        return tuple(
            Cost(
                model=prices.model,
                is_recorded=self._is_recorded,
                calls=tuple(map(prices.dollars, sent)),
                calls_without=tuple(map(prices.dollars, without)),
                summaries=sum(map(prices.dollars, self._summaries)),
                recorded=self._price_recorded(prices),
                sent=sum(sent, start=summaries),
                sent_without=sum(without, start=Bill()),
            )
            for prices, sent, without in zip(self._prices, self._bills, self._bills_without, strict=True)
        )


def _constant_block(session: RecordedSession, hidden_tokens: int) -> Block:
    """Return the system prompt and tools that are not among the messages, as one block."""
    text = _read_constant(session)
    return Block(text, ESTIMATOR.estimate_tokens(text) + hidden_tokens, is_system=True)


def _read_constant(session: RecordedSession) -> str:
    return f"{session.system or ''}\n{[*session.tools] or ''}".strip()


def _count_hidden(session: RecordedSession, sizes: Sequence[int]) -> int:
    """Return how much more the provider counted in the first call than is estimated; 0 if it did not count, or not more."""
    first = next((call for call in session.calls if not call.context_start), None)
    if first is None:
        return 0
    recorded = ESTIMATOR.estimate_tokens(_read_constant(session)) + sum(sizes[: first.index])
    return max(first.usage.input_tokens - recorded, 0)


def _bill_of(usage: Usage) -> Bill:
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return Bill(read=read, written=written, plain=usage.input_tokens - read - written, output=usage.output_tokens)


def _find_cold_calls(session: RecordedSession) -> set[int]:
    """Return the indexes of the answers for which the provider's cache had lost most of the request before, as after a pause."""
    return {
        call.index
        for before, call in pairwise(session.calls)
        if call.context_start == before.context_start
        and 2 * call.usage.cache_read_tokens < before.usage.cache_read_tokens + before.usage.cache_write_tokens
    }
