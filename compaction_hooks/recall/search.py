"""Search in the covered parts: passages that together have most of a query's words, the rare ones first."""

from __future__ import annotations

from functools import cached_property
from heapq import heapify, heappop, heapreplace
from math import fsum
from typing import NamedTuple

from compaction_hooks.recall.index import Index, Query, unescape
from compaction_hooks.recall.parts import MOST_LINE_CHARS, CoveredPart

MOST_READ_CHARS = 1_000_000
"""The most characters of the best parts whose lines are read for one search: a fraction of a second."""
REPEATED_WEIGHT = 0.1
"""The part of a word's weight that is left for further passages after one has shown it."""
SOUGHT_RATIO = 0.5
"""Words with this part of the greatest weight are sought: the passages are so short that there is room for one with each."""
HEAD_CHARS = 48
"""Characters that name a part in an answer, in addition to its source."""
LINES_CHARS = 10
"""Characters that name the lines of a further passage of a part."""


class Found(NamedTuple):
    """A passage that a search found.

    Attributes:
        first_line, last_line: The lines of the part that it shows, counted from 1, both included.
        text: These lines.
    """

    part: CoveredPart
    first_line: int
    last_line: int
    text: str


class _Part:
    """A part whose lines are searched.

    Attributes:
        terms: By line number from 0, the query's terms in it; lines without any are left out.
        taken: The lines that are shown.
    """

    def __init__(self, part: CoveredPart, query: Query, names: list[str], most_chars: int) -> None:
        self.part = part
        self.lines = part.lines_of(most_chars)
        found = ((number, query.find_terms(unescape(part, line), names)) for number, line in enumerate(self.lines))
        self.terms = {number: terms for number, terms in found if terms}
        self.taken: set[int] = set()

    @property
    def head_chars(self) -> int:
        """Characters that name the next passage of this part in an answer."""
        return LINES_CHARS if self.taken else HEAD_CHARS + self._source_chars

    @cached_property
    def _source_chars(self) -> int:
        """Asked for each line that is compared, and it takes a reading of all arguments of the call."""
        return len(self.part.source)

    def take(self, number: int, chars: int) -> range:
        """Take a line and, as far as the characters reach, those around it; return them."""
        first, end = number, number + 1
        chars -= len(self.lines[number]) + 1
        grows = True
        while grows:
            grows = False
            for line in (end, first - 1):
                is_free = 0 <= line < len(self.lines) and line not in self.taken
                if is_free and len(self.lines[line]) < chars:
                    chars -= len(self.lines[line]) + 1
                    first, end = min(first, line), max(end, line + 1)
                    grows = True
        self.taken.update(range(first, end))
        return range(first, end)


def search(index: Index, text: str, shown: str, most_chars: int) -> list[Found]:
    """Return passages with the words of a query, the best first; each prefers words that those before do not show."""
    query = index.read_query(text, shown)
    if not query.weights:
        return []
    weights = {**query.weights}
    parts = _read_parts(index, query)
    sought = sum(weight >= SOUGHT_RATIO * max(weights.values()) for weight in weights.values())
    passage_chars = min(most_chars // sought - HEAD_CHARS, MOST_LINE_CHARS)

    found: list[Found] = []
    # The worth of a line only falls while others are shown, so the first whose worth is still true is the best. `fsum` gives the
    # same worth in any order of the terms: that of a set is another one in each process.
    heap = [
        (-fsum(weights[term] for term in terms), rank, number)
        for rank, part in enumerate(parts)
        for number, terms in part.terms.items()
    ]
    heapify(heap)
    while heap:
        worth, rank, number = heap[0]
        part = parts[rank]
        now = -fsum(weights[term] for term in part.terms[number])
        room = most_chars - part.head_chars
        if number in part.taken or (found and len(part.lines[number]) >= room):
            heappop(heap)
        elif now > worth:
            heapreplace(heap, (now, rank, number))
        else:
            most_chars -= part.head_chars
            chosen = part.take(number, min(passage_chars, room))
            passage = "\n".join(part.lines[line] for line in chosen)
            most_chars -= len(passage)
            found.append(Found(part.part, chosen.start + 1, chosen.stop, passage))
            for term in set[str]().union(*(part.terms.get(line, ()) for line in chosen)):
                weights[term] = query.weights[term] * REPEATED_WEIGHT
    return found


def _read_parts(index: Index, query: Query) -> list[_Part]:
    """Return the best parts with their lines, as many as `MOST_READ_CHARS` characters have."""
    parts: list[_Part] = []
    left = MOST_READ_CHARS
    holders = {name: {*query.holders[name]} for name in query.names}
    for at in index.rank(query):
        if left <= 0:
            break
        names = [name for name, held in holders.items() if at in held]
        parts.append(_Part(index.parts[at], query, names, left))
        left -= len(index.parts[at].text)
    return parts


def show_lines(part: CoveredPart, first: int, last: int | None, most_chars: int) -> Found:
    """Return lines of a part, as many as the characters hold; the first of them is cut if it alone is longer."""
    lines = part.lines
    first = min(max(first, 1), len(lines))
    chosen = lines[first - 1 : None if last is None else max(last, first)]
    shown: list[str] = []
    chars = 0
    for line in chosen:
        chars += len(line) + 1
        if shown and chars > most_chars + 1:
            break
        shown.append(line[:most_chars])
    return Found(part, first, first + len(shown) - 1, "\n".join(shown))
