"""All that a view leaves out or shortens, to be listed, searched and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, overload

from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import Known
from compaction_hooks.messages import M
from compaction_hooks.recall.parts import CoveredPart, list_covered
from compaction_hooks.recall.search import Found, Index, search, show_lines
from compaction_hooks.view.projection import Projection


class Listing(Generic[M]):
    """The last reading of a list and the index of its covered parts: they are made again only after a change.

    Args:
        reader: Reads the list.
    """

    def __init__(self, reader: HistoryReader[M]) -> None:
        self.reader = reader
        self._history: History[M] | None = None
        self._kept: tuple[object, Index] = None, Index()

    def read(self, messages: Sequence[M], known: Known) -> History[M]:
        """Read a list: only its new messages, if the others are unchanged and no record came since."""
        last = self._history
        if last is None or last.known is not known:
            history = self.reader.read(messages, known)
        else:
            history = self.reader.verify(self.reader.sync(last, messages, known), messages)
        self._history = history
        return history

    def find_index(self, history: History[M], projection: Projection[M]) -> Index:
        """Return the index of what a projection leaves out or shortens; the last one if it is of the same parts."""
        if projection.is_identity:
            return Index()
        reductions = tuple(projection.reductions)
        last_run = max([history.run_of(max(projection.cut - 1, 0)), *(item.run for item in reductions)])
        read_until = history.run_pieces(last_run).stop  # the run at the cut may still grow
        key = (history.log, projection.cut, projection.pinned, reductions, read_until)
        if self._kept[0] != key:
            self._kept = key, Index(list_covered(history, projection))
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
        """Return lines of a part, as many as `most_chars` characters hold, at least one.

        Args:
            lines: The first and the last line, counted from 1, both included; None for the last: to the end. None: all lines.

        Raises:
            LookupError: no part has this handle: it is in view, or no longer in the list (rewound, edited, trimmed).
        """
        part = self.find(handle)
        if part is None:
            raise LookupError(f"{handle} is not covered: it is in view, or the list no longer has it")
        first, last = lines or (1, None)
        return show_lines(part, first, last, most_chars)

    def search(self, query: str, *, most_chars: int = MOST_CHARS) -> list[Found]:
        """Return passages that together have most of the query's words, the best first, in about `most_chars` characters.

        Names such as `src/a.py` or `getUser` count most, and rare words more than common ones. Words count without case, as pieces
        of names too; those that the view shows count little. The first search reads all texts.
        """
        return search(self._index, query, self._shown, most_chars)
