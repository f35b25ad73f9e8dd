"""The records of one conversation, in memory, and the changes of them that wait for the store.

1. Parents come before children, notes of pins first: the last record that is true of a list is its active one.
2. A record that was undone never comes back from elsewhere.
3. A pin of the host stays until its conversation is forgotten: a record or a note carries it.
4. A change waits in `StoreQueue` until the store has taken it, in the order of the changes; what was forgotten is not written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from compaction_hooks.history import History, OwnTexts
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M
from compaction_hooks.native import Issuer
from compaction_hooks.view.record import (
    UNKNOWN_RUN,
    CompactionRecord,
    Pin,
    collect_own_texts,
    pin_note,
    precedence,
    undo_note,
)
from compaction_hooks.view.view_of import is_true


class _Paid(NamedTuple):
    """A list that a session got as a whole, and paid a summary for.

    Attributes:
        digest: Of all before its last run.
        place: That of its last piece.
        last: The digest of this piece.
    """

    run: int
    digest: str | None
    place: int
    last: str

    def begins(self, history: History[M]) -> bool:
        """Return whether another list begins with this one."""
        begins_alike = self.place < history.piece_count and history.digest_before(self.run) == self.digest
        return begins_alike and message_digest(history.piece(self.place).message) == self.last


_PAID: Final[deque[_Paid]] = deque(maxlen=64)
"""The last of these lists, for all conversations of this process."""


def warn_if_paid_again(history: History[M]) -> None:
    """Warn of a summary by a model, for the first list of a session without a store, if one was paid for its beginning before.

    A conversation that grew in its session lost no record: forks of it, and a replay, are no mistake. Nor is a fork that leaves
    the earlier list before its end.
    """
    if any(paid.begins(history) for paid in tuple(_PAID)):
        logging.getLogger("compaction_hooks").warning(
            "a model summarized a conversation once more, because the record of its earlier summary was lost: keep one controller, "
            "and give all requests of a conversation the same id; several processes need a store, as in store=SQLiteStore(...)"
        )
    run, place = history.run_count - 1, history.piece_count - 1
    _PAID.append(_Paid(run, history.digest_before(run), place, message_digest(history.piece(place).message)))


class Records:
    """All records of one conversation, with the active one, the undone ones and the pins of the host.

    Attributes:
        all: All forks, sorted by `precedence` (parents before children); notes of pins first.
        own_texts: The summaries that may be at the head of a list.
        active_id: Id of the record last found true of a list whose messages were all read to verify it, or of its parent if it
            was undone since.
        undone: Ids of undone records, which are not added again from elsewhere; `native_id` of refused native items, and
            `native_name` of refused summaries of the provider's own in the list.
        user_pins: By digest, the run of each message that the host pinned; `UNKNOWN_RUN` if it is unknown.
        unseen_pins: The digests of each message that was pinned while it was not in the list, until the next list is read.
    """

    def __init__(self) -> None:
        self.all: list[CompactionRecord] = []
        self.own_texts = OwnTexts()
        self.active_id: str | None = None
        self.undone: set[str] = set()
        self.user_pins: dict[str, int] = {}
        self.unseen_pins: list[Set[str]] = []

    def find(self, record_id: str | None) -> CompactionRecord | None:
        """Return the record with this id, or None."""
        return next((record for record in self.all if record.id == record_id), None)

    def knows(self, record_id: str) -> bool:
        """Whether a record is here, or was undone."""
        return record_id in self.undone or self.find(record_id) is not None

    def is_new(self, record: CompactionRecord) -> bool:
        """Whether a record is new here, or a note of undone records names a new one."""
        return not self.undone.issuperset(record.takes_back) if record.takes_back else not self.knows(record.id)

    def find_active(self, history: History[M]) -> CompactionRecord | None:
        """Return the newest record that is true of a history, or None."""
        return next((record for record in reversed(self.all) if is_true(history, record)), None)

    def find_newest(self) -> CompactionRecord | None:
        """Return the record made last, or None."""
        made = (record for record in self.all if not record.is_note)
        return max(made, key=lambda record: (record.last_compacted_at, precedence(record)), default=None)

    def list_ancestors(self, record: CompactionRecord | None) -> list[CompactionRecord]:
        """Return a record and its ancestors, as far as they are here, oldest first."""
        by_id = {known.id: known for known in self.all}
        chain: dict[str, CompactionRecord] = {}
        while record is not None and record.id not in chain:
            chain[record.id] = record
            record = by_id.get(record.parent or "")
        return [*reversed(chain.values())]

    @property
    def has_manual_changes(self) -> bool:
        """Whether messages were pinned, or a compaction was asked for or undone."""
        by_hand = (
            any(pin.is_users for pin in record.pins) if record.is_note else record.reason.is_asked_for
            for record in self.all
        )
        return bool(self.undone) or any(by_hand)

    def add(self, records: Iterable[CompactionRecord]) -> None:
        """Add new records from elsewhere."""
        self.all.extend(records)
        self._refresh(collect_own_texts(self.all))

    def add_own(self, record: CompactionRecord) -> None:
        """Add a record made here, from the present list."""
        self.undone.discard(record.id)
        own_texts = collect_own_texts([record], onto=self.own_texts)
        self.all = [*(old for old in self.all if old.id != record.id), record]
        self._refresh(own_texts)

    def refuse_natives(self, issuer: Issuer) -> CompactionRecord:
        """Forget the native items of an issuer, which refuses them: its key was rotated. Return the note for the store."""
        names = [record.native_id for record in self.all if record.native_for(issuer)]
        self.undo({*names})
        return undo_note(names, 0, 0)

    def add_note(self, note: CompactionRecord, replaced: Iterable[CompactionRecord] = ()) -> None:
        """Add a note made here, in place of others."""
        gone = {note.id, *(old.id for old in replaced)}
        self.all = [note, *(old for old in self.all if old.id not in gone)]

    def add_reasoning(self, note: CompactionRecord) -> list[CompactionRecord]:
        """Add a note of stale reasoning; return the earlier ones, which it replaces."""
        earlier = self.find_reasoning()
        self.add_note(note, earlier)
        return [old for old in earlier if old.id != note.id]

    def find_reasoning(self) -> list[CompactionRecord]:
        """Return the notes of stale reasoning."""
        return [old for old in self.all if old.stale_runs is not None and old.is_note]

    @property
    def issuers(self) -> dict[str | None, str]:
        """By `native_name`, the model that made a sealed summary of the provider's own, as notes tell."""
        notes = (old for old in self.all if old.is_note and old.binding_models and old.stale_runs is None)
        return {note.parent: note.binding_models[0] for note in notes}

    def add_pins(self, pins: list[Pin]) -> CompactionRecord | None:
        """Add pins of the host for good; return the note that keeps them, or None if there are no new ones."""
        note = pin_note(pins)
        if not pins or self.find(note.id) is not None:
            return None
        if all(pin.run == UNKNOWN_RUN for pin in pins):
            self.unseen_pins.append({pin.digest for pin in pins})
        self.undone.discard(note.id)
        self.all.append(note)
        self._refresh(self.own_texts)
        self.keep_pins(pins)
        return note

    def keep_pins(self, pins: Iterable[Pin]) -> None:
        """Pin messages in the views of this process, until a record holds the pins."""
        self.user_pins.update({pin.digest: pin.run for pin in pins})

    def find_competing(self, record: CompactionRecord, history: History[M] | None) -> list[CompactionRecord]:
        """Return a record and the competing ones that other workers made from the same parent."""
        siblings = [old for old in self.all if old.parent == record.parent]
        if history is None:
            return [old for old in siblings if old.covered_digest == record.covered_digest]
        return [old for old in siblings if is_true(history, old)]

    def undo(self, ids: Set[str]) -> bool:
        """Remove records and native items for good; return whether any record was here."""
        self.undone |= ids
        kept = [old for old in self.all if old.id not in ids]
        is_gone = len(kept) < len(self.all)
        self.all = kept
        self._refresh(collect_own_texts(self.all) if is_gone else self.own_texts)
        return is_gone

    def find_settled_pins(self, record: CompactionRecord | None) -> Set[str]:
        """Return the digests of the pins that a view of this record shows: those from before the first view or the record."""
        seen_runs = record.seen_runs if record else 0
        return {digest for digest, run in self.user_pins.items() if run < seen_runs}

    def forget_pins(self) -> None:
        """Forget the pins that no record holds."""
        self.user_pins = {}
        self._refresh(self.own_texts)

    def _refresh(self, own_texts: OwnTexts) -> None:
        self.all = [replace(old, native=None) if old.native_id in self.undone else old for old in self.all]
        self.all.sort(key=precedence)
        self.own_texts = own_texts
        self.keep_pins(pin for record in self.all for pin in record.pins if pin.is_users)


class StoreQueue:
    """The changes of one conversation that wait for its store, and the store's known state.

    Attributes:
        state: "none": there is no store, or the conversation was forgotten, so that calls under way write nothing more;
            "forgotten": another worker forgot it during a compaction, which writes nothing more; "unread": its records were never
            loaded; "stale": another worker may have added some since; else "loaded".
        stored: Ids of records that the store held, each with whether it still held it at the last load.
        unwritten: Changes to write, oldest first: the id of a record, and its text, or None to remove it.
        is_writing: Whether a caller is writing them.
        cooldown_until: When a store that failed may be called again, in monotonic seconds; 0 once it was read after that.
        heard: Ids of the tombstones that the store showed.
        unreadable: Digests of the unreadable stored texts that were reported.
    """

    def __init__(self, *, has_store: bool) -> None:
        self.state: Literal["none", "forgotten", "unread", "stale", "loaded"] = "unread" if has_store else "none"
        self.stored: dict[str, bool] = {}
        self.unwritten: list[tuple[str, str | None]] = []
        self.is_writing = False
        self.cooldown_until = 0.0
        self.heard: set[str] = set()
        self.unreadable: set[str] = set()

    @property
    def has_store(self) -> bool:
        """Whether there is a store; without one nothing waits, and all records are loaded."""
        return self.state not in ("none", "forgotten")

    @property
    def is_loaded(self) -> bool:
        """Whether the records were loaded, and no other worker can have added any since."""
        return self.state == "loaded" or not self.has_store

    @property
    def has_failed(self) -> bool:
        """Whether the store failed, and was not read since."""
        return self.cooldown_until > 0

    def save(self, record: CompactionRecord) -> None:
        """Queue a record to be saved."""
        if self.has_store:
            self.unwritten.append((record.id, record.to_json()))

    def remove(self, record_id: str) -> None:
        """Queue the removal of a record."""
        if self.has_store:
            self.unwritten.append((record_id, None))
