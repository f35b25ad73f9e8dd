"""The covered parts of a conversation, kept between two uses of recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.history import Known
from compaction_hooks.messages import M
from compaction_hooks.recall.index import Index
from compaction_hooks.recall.parts import list_covered
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
