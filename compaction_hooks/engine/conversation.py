"""What is remembered of one conversation between calls, in memory; changed only between effects, under its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Final, Generic, cast

from compaction_hooks.engine.cooldown import Cooldown
from compaction_hooks.engine.records import Records
from compaction_hooks.engine.sizes import LastSent, Sizes
from compaction_hooks.engine.store_queue import StoreQueue
from compaction_hooks.files import FileOperations
from compaction_hooks.foreign import are_equal
from compaction_hooks.formats import format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M, Media, MergingFormat, Message, MessageFormat
from compaction_hooks.runtime.effects import InFlight, Instant
from compaction_hooks.tokens.media import LearnedMedia
from compaction_hooks.view.notes import undo_note
from compaction_hooks.view.projection import Projection, apply_record
from compaction_hooks.view.reasoning import BoundReasoning
from compaction_hooks.view.record import (
    UNKNOWN_RUN,
    CompactionRecord,
    Pin,
)
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.summary_message import SUMMARY_MARKER

UNDONE: Final = "undone"
"""Why threshold compaction rests after `undo`."""


class Conversation(Generic[M]):
    """The state of one conversation.

    Attributes:
        is_format_open: Whether no format was named and no message told one yet: `format` reads plain text as all do.
        repair_cache: What was made to mend the list last time, by what the format reads from it.
        projected: The newest projection, and what it was made of: record, facts, and how often copies took the messages' place.
        called_at: When the last call began.
        host_files: Gives the files that the host keeps track of in this conversation.
        reasoning: Which models refuse reasoning, and from which run on it is good.
        merges_user_messages: Whether user messages in a row are sent as one.
    """

    def __init__(
        self,
        id: str,
        format: MessageFormat[M],
        estimator: LearnedMedia,
        reader: HistoryReader[M],
        queue: StoreQueue,
        *,
        is_format_open: bool = False,
    ) -> None:
        self.id = id
        self.format = format
        self.estimator = estimator
        self.reader = reader
        self.queue = queue
        self.is_format_open = is_format_open
        self.lock = threading.RLock()
        self.history: History[M] | None = None
        self.repair_cache: dict[tuple[Message, ...], M] = {}
        self.records = Records()
        self.sizes = Sizes()
        self.cooldown = Cooldown()
        self.flight: InFlight | None = None
        self.last_sent: LastSent[M] | None = None
        self.projected: tuple[tuple[str | None, object, int], Projection[M]] | None = None
        self.called_at: Instant | None = None
        self.host_files: Callable[[], FileOperations] = FileOperations
        self.reasoning = BoundReasoning()
        self.merges_user_messages = False

    def detect_format(self, messages: Sequence[M]) -> None:
        """Take the format that the new messages of a list tell, where none was named and none told one before."""
        found = format_of(messages[self._count_known_head(messages) :]) if self.is_format_open else None
        if found is None:
            return
        self.is_format_open = False
        if found.name != self.format.name:
            self.format = cast("MessageFormat[M]", found)  # M is what these messages are
            self.reader = HistoryReader(self.format, self.estimator.estimate_message_tokens, SUMMARY_MARKER)
            self.history = None
            if self.last_sent is None:  # of another format's records only a part had been taken over
                self.sizes.calibrations.clear()
                self._learn_from_records()

    def _count_known_head(self, messages: Sequence[M]) -> int:
        """Return how many messages of a list were read before, as its first and its last known one tell."""
        count = self.history.host_count if self.history else 0
        if self.history is None or not 0 < count <= len(messages):
            return 0
        is_same = messages[0] is self.history.host(0) and messages[count - 1] is self.history.host(count - 1)
        return count if is_same else 0

    def add_records(self, records: Iterable[CompactionRecord]) -> list[CompactionRecord]:
        """Add records from elsewhere and return those that were new. After those the next list is read from the start.

        A note of undone records undoes them here too, with the cooldown that follows, and is not kept.
        """
        new = {record.id: record for record in records if self.records.is_new(record)}
        kept = [record for record in new.values() if not record.takes_back]
        if kept:
            self.records.add(kept)
            self._learn_from_records()
            self.history = None
        for note in (record for record in new.values() if record.takes_back):
            self._undo({*note.takes_back})
            if note.tokens_before and self.cooldown.window is None:
                self.cooldown.begin(note.tokens_before, UNDONE, note.tokens_after)
        return list(new.values())

    def export_all(self) -> list[CompactionRecord]:
        """Return all records, notes of pins among them, and a note of those that were undone."""
        if not self.records.undone:
            return [*self.records.all]
        until, window = (self.cooldown.until, self.cooldown.window or 0) if self.cooldown.why == UNDONE else (0, 0)
        return [*self.records.all, undo_note(self.records.undone, until, window)]

    def merge_from(self, sibling: Conversation[Any]) -> None:
        """Take over what is known of the same conversation in another format: its records, and which were undone."""
        self._undo(sibling.records.undone - {record.id for record in sibling.records.all})
        self.add_records([*sibling.records.all])

    def revoke(self, record: CompactionRecord) -> list[CompactionRecord]:
        """Undo a record and any competing records of the same parent; return them.

        A list that begins with one of their summaries is then read as one without a record.
        """
        gone = self.records.find_competing(record, self.history)
        self._undo({old.id for old in gone})
        self.records.active_id = record.parent
        return gone

    def _undo(self, ids: Set[str]) -> None:
        if self.records.undo(ids):
            self.history = None
            self.reasoning.is_rewritten = True

    def drop_missing(self) -> None:
        """Remove the records that the store no longer has, and the pins that only they held."""
        if self.queue.missing:
            self.queue.stored -= self.queue.missing
            self._undo(self.queue.missing)
            self.queue.missing = frozenset()
            self.records.forget_pins()

    def export_calibration(self, model: str | None) -> dict[str, object]:
        """Return what usage taught of a model as a record keeps it; empty when it taught nothing."""
        return self.sizes.export_calibration(model, self.estimator.name, self.format.name)

    def _learn_from_records(self) -> None:
        self.sizes.learn_from_records(self.records.all, self.estimator.name, self.format.name)

    def learn_media(self, sizes: Iterable[tuple[Media, int]]) -> None:
        """Take in how much larger media are than estimated; everything is measured anew."""
        for media, tokens in sizes:
            self.estimator.learn(media, tokens)
        self.history = self.projected = None
        self.sizes.baseline = self.sizes.last_checked = None

    def hand_out(self, snapshot: Snapshot[M]) -> LastSent[M]:
        """Return the view of a snapshot, and remember it: the provider's count is held against it."""
        view = snapshot.view
        # Its size is that of the messages apart: a merge saves a few tokens each, so what fits apart fits merged.
        merged = cast("MergingFormat[M]", self.format).merge(view) if self.merges_user_messages else view
        self.last_sent = LastSent(merged, view, snapshot.key, snapshot.tokens, snapshot.budget)
        if self.history is not None:
            self.reasoning.remember_sent(self.history)
        if snapshot.model is not None:
            self.sizes.models.add(snapshot.model)
        return self.last_sent

    def repair(self, messages: list[M]) -> list[M]:
        """Return a list with what was broken put right: the very list when nothing is.

        What was made for that is the same object as last time where it is equal, so that only what is new is read again.
        """
        from compaction_hooks.repair import repaired  # not everybody has a history to mend

        mended = repaired(messages, self.format)
        if mended is not messages:
            hosts = set(map(id, messages))
            made = ((place, message) for place, message in enumerate(mended) if id(message) not in hosts)
            known, self.repair_cache = self.repair_cache, {}
            for place, message in made:
                name = tuple(self.format.read(message))
                old = known.get(name, message)
                if are_equal(old, message):
                    mended[place] = message = old
                self.repair_cache[name] = message
        return mended

    def find_current(self) -> CompactionRecord | None:
        """Return the active record of the list last seen, or None; before the first list, the record that was made last."""
        if self.history is not None:
            return self.records.find_active(self.history)
        if self.records.active_id is None and self.last_sent is None:
            return self.records.find_newest()
        return self.records.find(self.records.active_id)

    def read(self, messages: Sequence[M]) -> tuple[History[M], CompactionRecord | None]:
        """Read what is new of a list and find the active record; before another one becomes active, messages are read again.

        So a message that the host changed in place is noticed at the latest here.
        """
        history = self.history = self.reader.sync(self.history, messages, self.records.known)
        record = self.records.find_active(history)
        if record is not None and record.id != self.records.active_id:
            history = self.history = self.reader.verify(history, messages, self._first_unverified(history, record))
            record = self.records.find_active(history)
        self.records.active_id = record.id if record else None
        return history, record

    def _first_unverified(self, history: History[M], record: CompactionRecord) -> int:
        """Return the first host message to read again: what the active record covers was when the next one was begun."""
        active = self.records.find(self.records.active_id)
        if active is None or record.parent != active.id:
            return 0
        return history.piece(history.run_start(max(active.covered_runs, history.base))).host

    def update_projection(
        self, history: History[M], record: CompactionRecord | None, stale_runs: int = 0
    ) -> Projection[M]:
        """Return a record applied to a history; kept for the histories that grow from this one."""
        name = (record.id if record else None, history.log, history.log.replaced)
        made_of, projected = self.projected or (None, None)
        earlier = projected if made_of is not None and made_of[1:] == name[1:] else None
        if (
            earlier is not None
            and made_of == name
            and earlier.stale_runs == stale_runs
            and earlier.is_settled
            # Another request may be the current one by now: a new process would not favour the one before.
            and earlier.unpinned_request in (None, history.request)
        ):
            projection = earlier
        else:
            estimate = self.estimator.estimate_message_tokens
            projection = apply_record(history, record, self.format, estimate, earlier, stale_runs=stale_runs)
            self.projected = name, projection
        if projection.reused is not history.log.shown:
            history.log.show(projection.reused)
        return projection

    def pin(self, message: M) -> CompactionRecord | None:
        """Keep a message word for word for good: this one, where several say the same.

        Returns:
            The note that keeps the pin until a compaction does and after it was undone; None if it is here already.
        """
        return self.records.add_pins(self._make_pins(message))

    def keep(self, message: M) -> None:
        """Keep a message word for word in the views of this process, until a record holds the pin."""
        self.records.keep_pins(self._make_pins(message))

    def _make_pins(self, message: M) -> list[Pin]:
        self.detect_format([message])
        history = self.history
        hosts = history.hosts() if history else []
        place = next((index for index, host in enumerate(hosts) if host is message), None)
        pieces = self.format.read(message)
        unknown = [UNKNOWN_RUN] * len(pieces)
        runs = unknown if history is None or place is None else map(history.run_of, history.host_pieces(place))
        return [
            Pin(run=run, digest=message_digest(piece), is_users=True)
            for piece, run in zip(pieces, runs, strict=True)
            if piece.role != "system"
        ]
