"""All that a view leaves out or shortens, to be listed, searched and read.

A search has an index of the lines of all parts, and returns the passages that together have most of a query's words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import accumulate
from math import fsum
from typing import Generic, NamedTuple, overload

from compaction_hooks.arguments import format_name
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import OwnTexts
from compaction_hooks.messages import M
from compaction_hooks.recall.parts import MOST_LINE_CHARS, CoveredPart, list_covered
from compaction_hooks.view.references import View
from compaction_hooks.view.texts import RECALL_TOOL

MOST_QUERY_CHARS = 40_000
"""The most characters of a query that are read: a long answer of a model."""
MOST_CALL_CHARS = 200
"""The most characters of a call's arguments by which its result is found: a path, a pattern or a command."""
NAME_WEIGHT = 6.0
"""The weight of a name, such as `src/a.py` or `getUser`, as a multiple of a word's that is in as many parts."""
SHOWN_WEIGHT = 0.03
"""The part of its weight that a word has if the view shows it: the model needs those that it no longer sees."""
LENGTH_RATIO = 0.6
"""The part of a text's length that counts against its words: a long text has any word."""
SATURATION = 1.2
"""How fast further mentions of one word count less. Both numbers are usual for BM25."""

_NAME = re.compile(r"\w+(?:[.\-/:@]+\w+)*")
_WORD = re.compile(rf"\w{{1,{MOST_LINE_CHARS}}}")
"""Longer words are data, which is read in lines of so many characters."""
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\dA-Za-z_]+")
_ESCAPE = re.compile(r"\\[\\nrt]")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class Query(NamedTuple):
    """The terms of a query that the parts have: words, pieces of words, and names.

    Attributes:
        weights: By term; rare terms, and those that the view does not show, weigh more.
        holders: By term, the parts that have it.
        names: The terms that are names: they are compared with their case, and as a whole.
        terms: By word as it is written in the parts, the other terms that it has.
    """

    weights: Mapping[str, float]
    holders: Mapping[str, Set[int]]
    names: Collection[str]
    terms: Mapping[str, Collection[str]]

    def find_terms(self, text: str, names: Iterable[str]) -> set[str]:
        """Return the terms that a line of a part has; of the names, those among `names`."""
        words = self.terms.keys() & _WORD.findall(text)
        return {name for name in names if has_name(text, name)}.union(*(self.terms[word] for word in words))


class Index:
    """The covered parts by the words in them, but for the recall tool's own calls and answers, which repeat others.

    The words are read with the first query.
    """

    def __init__(self, parts: Iterable[CoveredPart] = ()) -> None:
        self.parts: Sequence[CoveredPart] = tuple(parts)

    @cached_property
    def by_handle(self) -> Mapping[str, CoveredPart]:
        """The parts by their handles."""
        return {part.handle: part for part in self.parts}

    @cached_property
    def _holders(self) -> Mapping[str, Collection[int]]:
        """By word as it is written, the parts that have it."""
        holders: dict[str, list[int]] = {}
        for at, part in enumerate(self.parts):
            if part.call is None or part.call.name != RECALL_TOOL:
                for word in {*_WORD.findall(_read(part))}:
                    holders.setdefault(word, []).append(at)
        return holders

    @cached_property
    def _words(self) -> Mapping[str, Collection[str]]:
        """By term, the words that have it."""
        words: dict[str, list[str]] = {}
        for word in self._holders:
            for term in _split(word):
                words.setdefault(term, []).append(word)
        return words

    @cached_property
    def _mean_chars(self) -> float:
        return sum(len(part.text) for part in self.parts) / max(len(self.parts), 1) or 1.0

    def read_query(self, text: str, shown: str) -> Query:
        """Return the terms of a query that the parts have, for a view that shows a text."""
        text = text[:MOST_QUERY_CHARS]
        holders = {
            term: set[int]().union(*(self._holders[word] for word in self._words[term]))
            for term in sorted(find_terms(text) & self._words.keys())
        }
        terms: dict[str, list[str]] = {}
        for term in holders:
            for word in self._words[term]:
                terms.setdefault(word, []).append(term)

        names = {
            name: held
            for name in dict.fromkeys(filter(_is_name, _NAME.findall(text)))
            if (held := self._hold_name(name))
        }
        known = find_terms(shown) | {name for name in names if has_name(shown, name)}
        weights = {term: self._rate(held) for term, held in holders.items()}
        weights |= {name: NAME_WEIGHT * self._rate(held) for name, held in names.items()}
        weights |= {term: SHOWN_WEIGHT * weights[term] for term in known & weights.keys()}
        return Query(weights, {**holders, **names}, names, terms)

    def rank(self, query: Query) -> list[int]:
        """Return the indexes of the parts that have terms of a query, the best first; of equals the newest."""
        scores: dict[int, float] = {}
        for term, held in query.holders.items():
            for at in held:
                length = 1 - LENGTH_RATIO + LENGTH_RATIO * len(self.parts[at].text) / self._mean_chars
                scores[at] = scores.get(at, 0.0) + query.weights[term] / (1 + SATURATION * length)
        return sorted(scores, key=lambda at: (scores[at], at), reverse=True)

    def _rate(self, held: Collection[int]) -> float:
        return math.log(1 + (len(self.parts) - len(held) + 0.5) / (len(held) + 0.5))

    def _hold_name(self, name: str) -> set[int]:
        """Return the parts that have a name, among those that have all its words."""
        words = [self._holders.get(word, ()) for word in _WORD.findall(name)]
        held = set(words[0]).intersection(*words[1:])
        return {at for at in held if has_name(_read(self.parts[at]), name)}


def _read(part: CoveredPart) -> str:
    """Return the words by which a part is found: those of its text, and of its call."""
    call = part.call
    return f"{call.name} {call.arguments[:MOST_CALL_CHARS]}\n{unescape(part, part.text)}" if call else part.text


def unescape(part: CoveredPart, text: str) -> str:
    """Return a text of a part with spaces in place of JSON's escapes, whose letters are no part of the next word."""
    return _ESCAPE.sub("  ", text) if part.kind == "arguments" else text


def find_terms(text: str) -> set[str]:
    """Return the words of a text in lower case, and the pieces of its names: `getUser` has get and user."""
    return set[str]().union(*map(_split, {*_WORD.findall(text)}))


def has_name(text: str, name: str) -> bool:
    """Return whether a text has a name that is no part of a longer word."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not (_is_inner(text[start - 1 : start]) or _is_inner(text[end : end + 1])):
            return True
        start = text.find(name, end)
    return False


def _is_inner(neighbour: str) -> bool:
    return neighbour.isalnum() or neighbour == "_"


def _is_name(word: str) -> bool:
    return len(word) > 3 and ("_" in word or len(_PIECE.findall(word)) > 1)


@lru_cache(maxsize=50_000)
def _split(word: str) -> frozenset[str]:
    """Return a word and its pieces in lower case, without those of one or two letters; of Chinese or Japanese, pairs of signs."""
    words = {each.lower() for each in (word, *_PIECE.findall(word)) if len(each) > 2 or each.isdigit()}
    pairs = (run[at : at + 2] for run in _WIDE.findall(word) for at in range(len(run) - 1))
    return frozenset((*words, *pairs))


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
        found = (query.find_terms(unescape(part, line), names) for line in self.lines)
        self.terms = {number: terms for number, terms in enumerate(found) if terms}
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

    passages: list[Found] = []
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
        if number in part.taken or (passages and len(part.lines[number]) >= room):
            heappop(heap)
        elif now > worth:
            heapreplace(heap, (now, rank, number))
        else:
            most_chars -= part.head_chars
            chosen = part.take(number, min(passage_chars, room))
            passage = "\n".join(part.lines[line] for line in chosen)
            most_chars -= len(passage)
            passages.append(Found(part.part, chosen.start + 1, chosen.stop, passage))
            for term in set[str]().union(*(part.terms.get(line, ()) for line in chosen)):
                weights[term] = query.weights[term] * REPEATED_WEIGHT

    return passages


def _read_parts(index: Index, query: Query) -> list[_Part]:
    """Return the best parts with their lines, as many as `MOST_READ_CHARS` characters have."""
    parts: list[_Part] = []
    left = MOST_READ_CHARS

    for at in index.rank(query):
        if left <= 0:
            break
        names = [name for name in query.names if at in query.holders[name]]
        parts.append(_Part(index.parts[at], query, names, left))
        left -= len(index.parts[at].text)
    return parts


class Listing(Generic[M]):
    """The last reading of a list and the index of its covered parts: they are made again only after a change.

    Args:
        reader: Reads the list.
    """

    def __init__(self, reader: HistoryReader[M]) -> None:
        self.reader = reader
        self._history: History[M] | None = None
        self._kept: tuple[object, Index] = None, Index()

    def read(self, messages: Sequence[M], own_texts: OwnTexts) -> History[M]:
        """Read a list: only its new messages, if the others are unchanged and no record came since."""
        last = self._history
        if last is None or last.own_texts is not own_texts:
            history = self.reader.read(messages, own_texts)
        else:
            history = self.reader.verify(self.reader.sync(last, messages, own_texts), messages)
        self._history = history
        return history

    def find_index(self, history: History[M], view: View[M]) -> Index:
        """Return the index of what a view leaves out or shortens; the last one if it is of the same parts."""
        if view.is_identity:
            return Index()

        reductions = view.reductions
        last_run = max([history.run_of(max(view.cut - 1, 0)), *(item.run for item in reductions)])
        read_until = history.run_pieces(last_run).stop  # the run at the cut may still grow
        key = (history.log, view.cut, view.pinned, reductions, read_until)

        if self._kept[0] != key:
            self._kept = key, Index(list_covered(history, view))
        return self._kept[1]


MOST_CHARS = 8_000
"""The most characters of one answer to `read` or `search`: about 2,000 tokens, as long as a screen of text."""


class Covered(Sequence[CoveredPart]):
    """The parts that a view leaves out or shortens, in order: a sequence of `CoveredPart`.

    It is made from a list and a record, and changes neither; later messages and compactions do not change it.
    """

    def __init__(self, index: Index, shown: str = "") -> None:
        self._index = index
        self._shown = shown

    def __repr__(self) -> str:
        return f"Covered({len(self):,} part{'' if len(self) == 1 else 's'})"

    def __len__(self) -> int:
        return len(self._index.parts)

    @overload
    def __getitem__(self, index: int) -> CoveredPart: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CoveredPart]: ...
    def __getitem__(self, index: int | slice) -> CoveredPart | Sequence[CoveredPart]:
        return self._index.parts[index]

    def find(self, handle: str) -> CoveredPart | None:
        """Return the part with a handle; None if it is in view, or no longer in the list (rewound, edited, trimmed)."""
        return self._index.by_handle.get(handle)

    def read(self, handle: str, lines: tuple[int, int | None] | None = None, *, most_chars: int = MOST_CHARS) -> Found:
        """Return lines of a part, as many as `most_chars` characters hold; the first of them is cut if it alone is longer.

        Args:
            lines: The first and the last line, counted from 1, both included; None for the last: to the end. None: all lines.

        Raises:
            LookupError: no part has this handle: it is in view, or no longer in the list (rewound, edited, trimmed).
        """
        part = self.find(handle)
        if part is None:
            raise LookupError(f"{format_name(handle)} is not covered: it is in view, or the list no longer has it")

        (first, last), listed = lines or (1, None), part.lines
        first = min(max(first, 1), len(listed))
        chosen = listed[first - 1 : None if last is None else max(last, first)]

        ends = accumulate(len(line) + 1 for line in chosen)
        count = max(sum(end <= most_chars + 1 for end in ends), 1)
        kept = [line[:most_chars] for line in chosen[:count]]
        return Found(part, first, first + count - 1, "\n".join(kept))

    def search(self, query: str, *, most_chars: int = MOST_CHARS) -> list[Found]:
        """Return passages that together have most of the query's words, the best first, in about `most_chars` characters.

        Names such as `src/a.py` or `getUser` count most, and rare words more than common ones. Words count without case, as pieces
        of names too; those that the view shows count little. The first search reads all texts.
        """
        return search(self._index, query, self._shown, most_chars)
