"""The parts of each request that a provider's prompt cache reads, writes, or does not cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from tests.benchmarks.money.strategies import RULES, CacheRules
from tests.benchmarks.money.wire import Block, tokens_of


@dataclass(frozen=True, slots=True)
class Bill:
    """Tokens by price.

    Attributes:
        read, written, plain: Input from the cache, written to the cache, and not cached.
        output: The model's output.
        asked, summaries: Input and output of the summarizer's calls. Each request is sent once, so no cache is used.
    """

    read: int = 0
    written: int = 0
    plain: int = 0
    output: int = 0
    asked: int = 0
    summaries: int = 0

    def __add__(self, other: Bill) -> Bill:
        return Bill(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def dollars(self, rules: CacheRules) -> float:
        """Return the price of these tokens in dollars."""
        price = self.read * rules.read + self.written * rules.write + (self.plain + self.asked) * rules.input
        return (price + (self.output + self.summaries) * rules.output) / 1e6


@dataclass(slots=True)
class _Node:
    """A prefix that was sent before: its size, the models for which it was marked, and its continuations."""

    tokens: int
    marked: set[str] = field(default_factory=set[str])
    next: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


class PromptCaches:
    """The prefixes sent in one conversation, under all rules. Entries never expire, since an agent calls again within minutes."""

    def __init__(self) -> None:
        self._nodes = [_Node(0)]
        self._blocks: list[Block] = []

    def request(self, blocks: list[Block]) -> dict[str, Bill]:
        """Return the bill of one request by model, and add its prefixes."""
        known = self._walk(blocks)
        return {rules.model: self._bill(rules, blocks, known) for rules in RULES}

    def _walk(self, blocks: list[Block]) -> int:
        """Add the prefixes of a request, the empty one first; return the tokens of the longest one that was sent before."""
        count = len(self._blocks) if blocks[: len(self._blocks)] == self._blocks else 0
        nodes, known = self._nodes[: count + 1], -1
        for block in blocks[count:]:
            node = nodes[-1].next.get(block.text)
            if node is None:
                if known < 0:
                    known = nodes[-1].tokens + max(
                        (_common_tokens(block.text, text) for text in nodes[-1].next), default=0
                    )
                node = nodes[-1].next[block.text] = _Node(nodes[-1].tokens + block.tokens)
            nodes.append(node)
        self._nodes, self._blocks = nodes, blocks
        return nodes[-1].tokens if known < 0 else known

    def _bill(self, rules: CacheRules, blocks: Sequence[Block], known: int) -> Bill:
        total = self._nodes[-1].tokens
        if total < rules.minimum_tokens:
            return Bill(plain=total)
        if not rules.at_marks:
            found = known - known % rules.step_tokens
            read = found if found >= rules.minimum_tokens else 0
            return Bill(read=read, written=total - read)
        ends = _marks(rules, blocks)
        read = max(self._find_marked(rules, end) for end in ends)
        for end in ends:
            if self._nodes[end].tokens >= rules.minimum_tokens:
                self._nodes[end].marked.add(rules.model)
        return Bill(read=read, written=total - read)

    def _find_marked(self, rules: CacheRules, end: int) -> int:
        """Return the tokens of the longest prefix marked by an earlier request, looking back from the mark after `end` blocks."""
        first = 1 if rules.lookback_blocks is None else max(end - rules.lookback_blocks, 1)
        nodes = self._nodes
        return next((nodes[i].tokens for i in range(end, first - 1, -1) if rules.model in nodes[i].marked), 0)


def _marks(rules: CacheRules, blocks: Sequence[Block]) -> list[int]:
    """Return the numbers of blocks after which a request is marked."""
    systems = next((i for i, block in enumerate(blocks) if not block.is_system), len(blocks))
    return [len(blocks), systems] if rules.marks_system and 0 < systems < len(blocks) else [len(blocks)]


def _common_tokens(one: str, other: str) -> int:
    """Return the tokens of the common beginning of two blocks, without their heads."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    common = one[:same].partition("\n")[2]
    return tokens_of(common) if common else 0
