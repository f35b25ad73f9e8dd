"""The loss report of a compaction, counted when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple


class LossFigures(NamedTuple):
    """How many facts of one class a view has kept, and left out.

    Attributes:
        kept: Facts that the view still shows, word for word.
        recallable: Facts that it does not show, and the list has: recall reads them again.
        lost: Facts of an earlier summary whose messages the list no longer has.
    """

    kept: int
    recallable: int
    lost: int


class LossReport:
    """The figures of a loss, by class of facts: counted when they are first read, and kept from then on.

    Args:
        count: Counts them. It is dropped after the first reading, with the messages that it holds.
    """

    def __init__(self, count: Callable[[], dict[str, LossFigures]] = dict) -> None:
        self._count = count
        self._figures: dict[str, LossFigures] | None = None

    @property
    def figures(self) -> dict[str, LossFigures]:
        """The figures."""
        count = self._count  # read before the figures: another thread may set both meanwhile, the figures first
        if self._figures is None:
            self._figures = count()
            self._count = dict
        return self._figures

    def __reduce__(self) -> tuple[type[LossReport], tuple[partial[dict[str, LossFigures]]]]:
        """Copy and pickle the figures alone, not the messages."""
        return LossReport, (partial(dict, self.figures),)
