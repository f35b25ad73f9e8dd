"""The records that a store holds for a conversation, and the changes that wait to be written."""

from __future__ import annotations

from collections.abc import Iterable, Set

from compaction_hooks.runtime.effects import Write
from compaction_hooks.view.record import CompactionRecord


class StoreQueue:
    """The changes of one conversation that wait for its store, and the store's known state.

    Attributes:
        has_store: Whether there is a store; without one nothing waits, and all records are loaded.
        is_loaded: Whether the records were loaded, and no other worker can have added any since.
        was_loaded: Whether the records were ever loaded.
        stored: Ids of records that the store held.
        missing: Ids in `stored` that the store no longer held at the last load.
        unwritten: Changes to write, oldest first.
        is_writing: Whether a caller is writing them.
        is_forgotten: Whether the conversation was forgotten: calls under way write nothing more.
        cooldown_until: When a store that failed may be called again, in monotonic seconds.
        unreadable: Digests of the unreadable stored texts that were reported.
    """

    def __init__(self, session_id: str, *, has_store: bool) -> None:
        self.session_id = session_id
        self.has_store = has_store
        self.is_loaded = self.was_loaded = not has_store
        self.stored: set[str] = set()
        self.missing: Set[str] = frozenset()
        self.unwritten: list[Write] = []
        self.is_writing = False
        self.is_forgotten = False
        self.cooldown_until = 0.0
        self.unreadable: set[str] = set()

    def save(self, record: CompactionRecord) -> None:
        """Queue a record to be saved."""
        if self.has_store:
            self.unwritten.append(Write(self.session_id, record.id, record.to_json()))

    def remove(self, record_id: str) -> None:
        """Queue the removal of a record."""
        if self.has_store:
            self.unwritten.append(Write(self.session_id, record_id))

    def replace(self, old: Iterable[CompactionRecord], new: Iterable[CompactionRecord]) -> None:
        """Queue records to be saved in place of others."""
        for record in new:
            self.save(record)
        for record in old:
            self.remove(record.id)

    def record_written(self, change: Write) -> None:
        """Update `stored` after a change was written."""
        if change.text is None:
            self.stored.discard(change.record_id)
        else:
            self.stored.add(change.record_id)
