"""The parts of each request that a provider's prompt cache reads, writes, or does not cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final

from compaction_hooks.messages import Message, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.tokens import CharacterEstimator, TokenEstimator

ESTIMATOR: Final = CharacterEstimator()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """How a provider caches the beginnings of requests.

    Attributes:
        minimum_tokens: A shorter prefix is never cached.
        step_tokens: The length of a cached prefix is a multiple of this.
        at_marks: Whether only prefixes that end at a mark of an earlier request are found; otherwise any common prefix is.
        marks_system: Whether the host marks the end of the system messages too, as Anthropic's own examples do.
        lookback_blocks: Number of content blocks before a mark that are searched for an earlier mark; None: all.
    """

    minimum_tokens: int
    step_tokens: int = 1
    at_marks: bool = False
    marks_system: bool = False
    lookback_blocks: int | None = None


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


@dataclass(frozen=True, slots=True)
class Block:
    """One content block: its text, for comparison, and its tokens."""

    text: str
    tokens: int
    is_system: bool


def read_blocks(pieces: Sequence[Message], estimator: TokenEstimator = ESTIMATOR) -> list[Block]:
    """Return the content blocks of one message; their tokens add up to the estimate of its pieces."""
    blocks: list[Block] = []
    for piece in pieces:
        head, is_system = f"{piece.role}\n", piece.role == "system"
        frame = estimator.estimate_message_tokens(replace(piece, parts=()))

        if not piece.parts:
            blocks.append(Block(head, frame, is_system))
        for number, part in enumerate(piece.parts):
            tokens = estimator.estimate_message_tokens(replace(piece, parts=(part,)))
            # The frame of the message is counted with its first block.
            blocks.append(Block(head + _text(part), tokens - frame if number else tokens, is_system))

    return blocks


def _text(part: object) -> str:
    match part:
        case Text(text=text) | ToolResult(text=text, media=()) | Thinking(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return f"{name} {arguments}"
        case _:  # media and blocks of a provider: their identity, not their size
            return repr(part)


@dataclass(slots=True)
class _Node:
    """A prefix that was sent before: its size, the rules under which it was marked, and its continuations."""

    tokens: int
    marked: set[int] = field(default_factory=set[int])
    next: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


class PromptCaches:
    """The prefixes sent in one conversation, under each of several rules.

    Entries never expire, since an agent calls again within minutes.
    """

    def __init__(self, rules: Sequence[CacheRules], estimator: TokenEstimator = ESTIMATOR) -> None:
        self._rules = rules
        self._estimator = estimator
        self._nodes = [_Node(0)]
        self._blocks: list[Block] = []

    def request(self, blocks: list[Block]) -> list[Bill]:
        """Return the bill of one request under each of the rules, and add its prefixes."""
        known = self._walk(blocks)
        return [self._bill(number, rules, blocks, known) for number, rules in enumerate(self._rules)]

    def _walk(self, blocks: list[Block]) -> int:
        """Add the prefixes of a request, the empty one first; return the tokens of the longest one that was sent before."""
        count = len(self._blocks) if blocks[: len(self._blocks)] == self._blocks else 0
        nodes, known = self._nodes[: count + 1], -1

        for block in blocks[count:]:
            node = nodes[-1].next.get(block.text)
            if node is None:
                if known < 0:
                    common = (self._count_common(block.text, text) for text in nodes[-1].next)
                    known = nodes[-1].tokens + max(common, default=0)
                node = nodes[-1].next[block.text] = _Node(nodes[-1].tokens + block.tokens)
            nodes.append(node)

        self._nodes, self._blocks = nodes, blocks
        return nodes[-1].tokens if known < 0 else known

    def _count_common(self, one: str, other: str) -> int:
        """Return the tokens of the common beginning of two blocks, without their heads."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        common = one[:same].partition("\n")[2]
        return self._estimator.estimate_tokens(common) if common else 0

    def _bill(self, number: int, rules: CacheRules, blocks: Sequence[Block], known: int) -> Bill:
        total = self._nodes[-1].tokens
        if total < rules.minimum_tokens:
            return Bill(plain=total)

        if not rules.at_marks:
            found = known - known % rules.step_tokens
            read = found if found >= rules.minimum_tokens else 0
            return Bill(read=read, written=total - read)

        ends = _marks(rules, blocks)
        read = max(self._find_marked(number, rules, end) for end in ends)
        for end in ends:
            if self._nodes[end].tokens >= rules.minimum_tokens:
                self._nodes[end].marked.add(number)

        return Bill(read=read, written=total - read)

    def _find_marked(self, number: int, rules: CacheRules, end: int) -> int:
        """Return the tokens of the longest prefix marked by an earlier request, looking back from the mark after `end` blocks."""
        first = 1 if rules.lookback_blocks is None else max(end - rules.lookback_blocks, 1)
        nodes = self._nodes
        return next((nodes[i].tokens for i in range(end, first - 1, -1) if number in nodes[i].marked), 0)


def _marks(rules: CacheRules, blocks: Sequence[Block]) -> list[int]:
    """Return the numbers of blocks after which a request is marked."""
    systems = next((i for i, block in enumerate(blocks) if not block.is_system), len(blocks))
    return [len(blocks), systems] if rules.marks_system and 0 < systems < len(blocks) else [len(blocks)]
