"""What the store of a conversation has, and what it has still to be told."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from compaction_hooks.runtime.effects import Remove, Save
from compaction_hooks.view.record import CompactionRecord


@dataclass(slots=True, eq=False, repr=False)
class StoreQueue:
    """The changes of one conversation that wait for its store, and what is known of the store.

    Attributes:
        is_loaded: Whether the store was asked for its records; not any more once another worker may have added to them.
        was_loaded: Whether the store ever gave its records.
        stored: Ids of records that the store had.
        missing: Those of them that it no longer had when it was last asked.
        unwritten: What the store has still to be told, oldest first.
        is_writing: Whether a caller is telling it.
        is_forgotten: Whether the conversation was forgotten: calls that are under way write nothing any more.
        rests_until: When a store that failed may be asked again, in monotonic seconds.
        unreadable: Digests of stored texts that could not be read, and were reported.
    """

    session_id: str
    is_loaded: bool = False
    was_loaded: bool = False
    stored: set[str] = field(default_factory=set[str])
    missing: Set[str] = frozenset()
    unwritten: list[Save | Remove] = field(default_factory=list["Save | Remove"])
    is_writing: bool = False
    is_forgotten: bool = False
    rests_until: float = 0.0
    unreadable: set[str] = field(default_factory=set[str])

    def save(self, record: CompactionRecord) -> None:
        """Save a record as soon as the store can be told."""
        self.unwritten.append(Save(self.session_id, record.id, record.to_json()))

    def remove(self, record_id: str) -> None:
        """Remove a record as soon as the store can be told."""
        self.unwritten.append(Remove(self.session_id, record_id))

    def record_written(self, wish: Save | Remove) -> None:
        """Remember that the store was told."""
        if isinstance(wish, Save):
            self.stored.add(wish.record_id)
        else:
            self.stored.discard(wish.record_id)
