"""Notes on parts that a reader left out or repaired, with their places, one note for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.replay.recorded import RecordedSession, Unread

SHOWN_PLACES: Final = 5
"""Number of places named for one reason; further ones are counted."""

NO_KIND: Final = Unread("an entry of no kind")
"""The reason for null, an empty object, or an object that does not name its type."""


class Skipped:
    """Collects reasons with their places, and returns one note for each, in the order of their first place."""

    def __init__(self, unit: str = "line") -> None:
        """Create an empty collection. Places are counted in `unit`: lines (from 1), messages or events (from 0)."""
        self._unit = unit
        self._places: dict[str, list[int]] = {}
        self._kinds: Counter[str] = Counter()

    def add(self, reason: str, *places: int) -> None:
        """Add a reason, with its places if it has any; an `Unread` if a part could not be read for this reason."""
        self._places.setdefault(reason, []).extend(places)

    def add_kind(self, name: str, *places: int) -> None:
        """Count an entry that is not part of the conversation; all kinds share one note.

        Without a name the entry says nothing: it could not be read, and its places are noted.
        """
        if name:
            self._kinds[name] += 1
        else:
            self.add(NO_KIND, *places)

    def notes(self) -> tuple[str, ...]:
        """Return one note for each reason, such as "lines 4, 9: a result without its call", then one for all kinds."""
        texts = [self._note(reason, places) for reason, places in self._places.items()]
        if self._kinds:
            counted = ", ".join(f"{kind} {times}" for kind, times in self._kinds.most_common())
            texts.append(f"no part of the conversation: {counted}")
        return tuple(texts)

    def _note(self, reason: str, places: Iterable[int]) -> str:
        found = list(dict.fromkeys(places))
        if not found:
            return reason
        if len(found) == 1:
            return at(f"{self._unit} {found[0]}", reason)
        shown = ", ".join(str(place) for place in found[:SHOWN_PLACES])
        more = f" and {len(found) - SHOWN_PLACES} more" if len(found) > SHOWN_PLACES else ""
        return at(f"{self._unit}s {shown}{more}", reason)


def join_sessions(found: Iterable[Iterable[RecordedSession]]) -> Iterator[RecordedSession]:
    """Yield the sessions of a file's lists of messages, one after the other, with a note on the lists in which no model answers."""
    sessions = [tuple(each) for each in found]
    silent = sum(not each for each in sessions)
    notes = [Unread(f"{pluralize(silent, 'session')} in which no model answers")] if silent else []
    for session in (one for each in sessions for one in each):
        yield replace(session, skipped=(*notes, *session.skipped))
        notes = []


def at(place: str, reason: str) -> str:
    """Return the note for a place; that of an unread part stays one."""
    note = f"{place}: {reason}"
    return Unread(note) if isinstance(reason, Unread) else note
