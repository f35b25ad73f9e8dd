"""What a reader had to leave out or mend, and where, without saying the same thing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

SHOWN_PLACES: Final = 5
"""Places named for one reason; the others are counted."""


class Skipped:
    """Collects reasons with their places and puts them into words, in the order in which they came up first."""

    def __init__(self, unit: str = "line") -> None:
        """`unit` is what a place counts: lines (from 1), or messages and events of one JSON document (from 0)."""
        self._unit = unit
        self._places: dict[str, list[int]] = {}
        self._kinds: Counter[str] = Counter()

    def add(self, reason: str, *places: int) -> None:
        """Note a reason, at these places or at none in particular."""
        self._places.setdefault(reason, []).extend(places)

    def kind(self, name: str) -> None:
        """Count something of a kind that is no part of the conversation; all kinds share one note."""
        self._kinds[name] += 1

    def notes(self) -> tuple[str, ...]:
        """One text for each reason, such as "lines 4, 9: a result without its call"; then one for all kinds."""
        said = [self._note(reason, places) for reason, places in self._places.items()]
        if self._kinds:
            counted = ", ".join(f"{kind} {times}" for kind, times in self._kinds.most_common())
            said.append(f"no part of the conversation: {counted}")
        return tuple(said)

    def _note(self, reason: str, places: Iterable[int]) -> str:
        found = list(dict.fromkeys(places))
        if not found:
            return reason
        if len(found) == 1:
            return f"{self._unit} {found[0]}: {reason}"
        shown = ", ".join(str(place) for place in found[:SHOWN_PLACES])
        more = f" and {len(found) - SHOWN_PLACES} more" if len(found) > SHOWN_PLACES else ""
        return f"{self._unit}s {shown}{more}: {reason}"
