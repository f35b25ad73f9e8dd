"""What the store of a conversation has, and what it has still to be told."""

from __future__ import annotations

from collections.abc import Set

from compaction_hooks.runtime.effects import Write
from compaction_hooks.view.record import CompactionRecord


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
        cooldown_until: When a store that failed may be asked again, in monotonic seconds.
        unreadable: Digests of stored texts that could not be read, and were reported.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.is_loaded = False
        self.was_loaded = False
        self.stored: set[str] = set()
        self.missing: Set[str] = frozenset()
        self.unwritten: list[Write] = []
        self.is_writing = False
        self.is_forgotten = False
        self.cooldown_until = 0.0
        self.unreadable: set[str] = set()

    def save(self, record: CompactionRecord) -> None:
        """Save a record as soon as the store can be told."""
        self.unwritten.append(Write(self.session_id, record.id, record.to_json()))

    def remove(self, record_id: str) -> None:
        """Remove a record as soon as the store can be told."""
        self.unwritten.append(Write(self.session_id, record_id))

    def record_written(self, change: Write) -> None:
        """Remember that the store was told."""
        if change.text is None:
            self.stored.discard(change.record_id)
        else:
            self.stored.add(change.record_id)
