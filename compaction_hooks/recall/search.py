"""Search in the covered parts: the passages that have most of a query's words, the rare ones first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from compaction_hooks.recall.parts import CoveredPart
from compaction_hooks.view.markers import RECALL_TOOL

MOST_TERMS = 160
"""The most words of a query that are looked for: each takes a pass over all texts."""
MOST_PARTS = 100
"""The most parts, the best, from which passages are chosen."""
SHOWN_RATIO = 0.1
"""The part of a word's weight that is left for further passages after one has shown it."""
PASSAGE_LINES = 10
"""Lines of one passage."""
MOST_LINES = 20_000
"""The most lines of one part in which passages are looked for."""
LENGTH_RATIO = 0.6
"""The part of a text's length that counts against its words: a long text has any word."""
SATURATION = 1.2
"""How fast further mentions of one word count less. Both numbers are usual for BM25."""

_WORD = re.compile(r"[^\W_]+(?:[_.\-/:@][^\W_]+)*|[^\W_]+")
_PIECE = re.compile(r"[^\W_]{3,}")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


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


class Index:
    """The covered parts in lower case, but for the recall tool's own calls and answers, which repeat others."""

    def __init__(self, parts: Iterable[CoveredPart]) -> None:
        self._parts = [part for part in parts if part.call is None or part.call.name != RECALL_TOOL]
        self._texts = [f"{part.source}\n{part.text}".lower() for part in self._parts]
        self._mean = sum(map(len, self._texts)) / max(len(self._parts), 1)

    def find(self, query: str, most_chars: int, passage_chars: int) -> list[Found]:
        """Return passages with the words of a query, the best first; each prefers words that those before do not show."""
        weights, shares = self._rate(_terms(query))
        found: list[Found] = []
        shown: set[tuple[str, int]] = set()
        while shares and most_chars >= passage_chars:
            # Of equals the newest.
            at = max(shares, key=lambda at: (sum(weights[term] * share for term, share in shares[at].items()), at))
            passage = find_passage(self._parts[at], weights, passage_chars)
            place = passage.part.handle, passage.first_line
            if place in shown:
                del shares[at]
                continue
            shown.add(place)
            found.append(passage)
            most_chars -= len(passage.text)
            text = passage.text.lower()
            weights = {term: weight * (SHOWN_RATIO if term in text else 1) for term, weight in weights.items()}
        return found

    def _rate(self, terms: Iterable[str]) -> tuple[dict[str, float], dict[int, dict[str, float]]]:
        """Return the weight of each term, and by part its share of that for the best parts."""
        weights: dict[str, float] = {}
        shares: dict[int, dict[str, float]] = {}
        for term in terms:
            counts = {at: text.count(term) for at, text in enumerate(self._texts) if term in text}
            if counts:
                weights[term] = math.log(1 + (len(self._texts) - len(counts) + 0.5) / (len(counts) + 0.5))
            for at, count in counts.items():
                length = 1 - LENGTH_RATIO + LENGTH_RATIO * len(self._texts[at]) / self._mean
                shares.setdefault(at, {})[term] = count / (count + SATURATION * length)
        best = sorted(shares, key=lambda at: sum(weights[term] * share for term, share in shares[at].items()))
        return weights, {at: shares[at] for at in best[-MOST_PARTS:]}


def find_passage(part: CoveredPart, weights: Mapping[str, float], most_chars: int) -> Found:
    """Return the passage of a part that has most of the weighted words: its best line, and those around it."""
    lines = part.lines[:MOST_LINES]
    worth = [sum(weight for term, weight in weights.items() if term in line) for line in map(str.lower, lines)]
    sums = [0.0, *accumulate(worth)]
    ends = [min(start + PASSAGE_LINES, len(lines)) for start in range(len(lines))]
    start = max(range(len(lines)), key=lambda at: (sums[ends[at]] - sums[at], -at))
    best = first = max(range(start, ends[start]), key=lambda at: (worth[at], -at))
    room = most_chars // 3 - len(lines[best])
    while first > start and (room := room - len(lines[first - 1]) - 1) >= 0:
        first -= 1
    return show_lines(part, first + 1, first + PASSAGE_LINES, most_chars)


def show_lines(part: CoveredPart, first: int, last: int | None, most_chars: int) -> Found:
    """Return lines of a part, as many as the characters hold; the first of them is cut if it alone is longer."""
    lines = part.lines
    first = min(max(first, 1), len(lines))
    chosen = lines[first - 1 : last]
    shown: list[str] = []
    chars = 0
    for line in chosen or lines[first - 1 : first]:
        chars += len(line) + 1
        if shown and chars > most_chars + 1:
            break
        shown.append(line[:most_chars])
    return Found(part, first, first + len(shown) - 1, "\n".join(shown))


def _terms(query: str) -> list[str]:
    """Return the words of a query, and the parts of its names, in lower case."""
    return [*dict.fromkeys(_split(query.lower()))][:MOST_TERMS]


def _split(query: str) -> Iterator[str]:
    words = _WORD.findall(query)
    yield from (word for word in words if len(word) > 2 or word.isdigit())
    for word in words:
        yield from _PIECE.findall(word)
    for run in _WIDE.findall(query):
        yield from (run[at : at + 2] for at in range(len(run) - 1))
