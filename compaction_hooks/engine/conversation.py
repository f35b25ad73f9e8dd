"""What is remembered of one conversation between calls, in memory; changed only between effects, under its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import field
from typing import Any, Final, Generic, cast

from compaction_hooks.engine.cooldown import Breaker, KnownOverflow
from compaction_hooks.engine.sizes import Anchor, Frame, LastSent
from compaction_hooks.files import FileOperations
from compaction_hooks.formats import format_of
from compaction_hooks.history import History, HistoryReader, Known
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M, Media, Message, MessageFormat
from compaction_hooks.runtime.effects import Flight, Instant, Remove, Save
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.tokens.media import LearnedMedia
from compaction_hooks.values import dataclass
from compaction_hooks.view.merging import merge_user_messages
from compaction_hooks.view.notes import pin_note, undo_note
from compaction_hooks.view.projection import Projection, apply_record, is_true, newest_true
from compaction_hooks.view.reasoning import BoundReasoning
from compaction_hooks.view.record import (
    UNKNOWN_RUN,
    CompactionReason,
    CompactionRecord,
    Pin,
    known_products,
    precedence,
)
from compaction_hooks.view.snapshot import ViewKey
from compaction_hooks.view.summary_message import SUMMARY_MARKER

_UNTAUGHT = Calibration()
UNDONE: Final = "undone"
"""Why threshold compaction rests after `undo`."""


@dataclass(slots=True, eq=False)
class Conversation(Generic[M]):
    """The state of one conversation.

    Attributes:
        is_format_open: Whether no format was named and no message told one yet: `format` reads plain text as all do.
        records: All forks, in the order of `precedence`, which is that in which one was made of the other; notes of pins first.
        made: What was made to mend the list last time, by what the format reads from it.
        in_force: Id of the record that was last found true of a list whose messages were all read for it, or whose successor was
            taken back since.
        is_loaded: Whether the store was asked for its records; not any more once another worker may have added to them.
        was_loaded: Whether the store ever gave its records.
        stored: Ids of records that the store had.
        missing: Those of them that it no longer had when it was last asked.
        is_forgotten: Whether the conversation was forgotten: calls that are under way write nothing any more.
        unwritten: What the store has still to be told, oldest first.
        is_writing: Whether a caller is telling it.
        store_rests_until: When a store that failed may be asked again, in monotonic seconds.
        unreadable: Digests of stored texts that were passed over, and reported.
        user_pins: By digest, what the host pinned, and the run it is in; `UNKNOWN_RUN` when that is not known.
        unseen_pins: The digests of each message that was pinned while it was not in the list, until the next list was looked at.
        weighed: The view at hand when the usage that answers carry was last weighed, and the piece of the newest of them.
        rest_until: While the context is smaller than this (tokens of the model) and fits the window, no threshold compaction.
        known_overflow: What could not be made to fit when that was last tried, or None.
        projected: The projection in force, and what it was made of: record, facts, and how often copies took the messages' place.
        offered: The same of a record that is about to come into force.
        has_overflowed: The provider accepted more than the window silently: compact before the next call.
        most_chars: A request whose messages have more characters is refused for its bytes, as a refusal told; None: unknown.
        beside: System prompt and tools last handed over beside the list, and the estimate of each.
        calibrations: By model, what usage taught in this conversation, in this process or, as its records say, in an earlier one.
        models: The models that views were handed out for.
        frame: What the calls since the last look have in common, while nothing is due; None: the next call looks.
        glanced_at: The list that this very call has read already, and must look at closely.
        called_at: When the last call began, if triggers ask for that.
        host_files: Gives the files that the host keeps track of in this conversation.
        undone: Ids of records that were taken back; they do not come in again from elsewhere.
        reasoning: Which models refuse reasoning, and from which run on it is good.
        merges_user_messages: Whether user messages in a row are sent as one.
    """

    id: str
    format: MessageFormat[M]
    estimator: LearnedMedia
    reader: HistoryReader[M]
    is_format_open: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    records: list[CompactionRecord] = field(default_factory=list[CompactionRecord])
    known: Known = field(default_factory=Known)
    history: History[M] | None = None
    made: dict[tuple[Message, ...], M] = field(default_factory=dict[tuple[Message, ...], M])
    in_force: str | None = None
    is_loaded: bool = False
    was_loaded: bool = False
    stored: set[str] = field(default_factory=set[str])
    missing: Set[str] = frozenset()
    is_forgotten: bool = False
    unwritten: list[Save | Remove] = field(default_factory=list["Save | Remove"])
    is_writing: bool = False
    store_rests_until: float = 0.0
    unreadable: set[str] = field(default_factory=set[str])
    flight: Flight | None = None
    breaker: Breaker = field(default_factory=Breaker)
    user_pins: dict[str, int] = field(default_factory=dict[str, int])
    unseen_pins: list[Set[str]] = field(default_factory=list["Set[str]"])
    last_sent: LastSent[M] | None = None
    anchor: Anchor | None = None
    weighed: tuple[ViewKey, int] | None = None
    rest_until: int = 0
    rest_why: str = ""
    rest_window: int | None = None
    known_overflow: KnownOverflow | None = None
    has_overflowed: bool = False
    most_chars: int | None = None
    projected: tuple[tuple[str | None, object, int], Projection[M]] | None = None
    offered: tuple[tuple[str | None, object, int], Projection[M]] | None = None
    beside: tuple[object, object, int, int] | None = None
    calibrations: dict[str | None, Calibration] = field(default_factory=dict[str | None, Calibration])
    models: set[str] = field(default_factory=set[str])
    frame: Frame[M] | None = None
    glanced_at: Sequence[M] | None = None
    called_at: Instant | None = None
    host_files: Callable[[], FileOperations] | None = None
    undone: set[str] = field(default_factory=set[str])
    reasoning: BoundReasoning = field(default_factory=BoundReasoning)
    merges_user_messages: bool = False

    def settle_format(self, messages: Sequence[M]) -> None:
        """Take the format that the new messages of a list tell, where none was named and none told one before."""
        found = format_of(messages[self._same_head(messages) :]) if self.is_format_open else None
        if found is None:
            return
        self.is_format_open = False
        if found.name != self.format.name:
            self.format = cast("MessageFormat[M]", found)  # M is what these messages are
            self.reader = HistoryReader(self.format, self.estimator.estimate_message_tokens, SUMMARY_MARKER)
            self.history = self.frame = None
            if self.last_sent is None:  # of another format's records only a part had been taken over
                self.calibrations.clear()
                self._learn_from_records()

    def _same_head(self, messages: Sequence[M]) -> int:
        """Return how many messages of a list were read before, as its first and its last known one tell."""
        count = self.history.host_count if self.history else 0
        if self.history is None or not 0 < count <= len(messages):
            return 0
        is_same = messages[0] is self.history.host(0) and messages[count - 1] is self.history.host(count - 1)
        return count if is_same else 0

    def add_records(self, records: Iterable[CompactionRecord]) -> list[CompactionRecord]:
        """Take over records from elsewhere and return those that were new. After those the next list is read from the start.

        A note of records that were taken back takes them back here too, with the rest that follows, and is not kept.
        """
        new = {record.id: record for record in records if self._is_new(record)}
        kept = [record for record in new.values() if not record.takes_back]
        if kept:
            self.records.extend(kept)
            self._records_changed()
            self._learn_from_records()
            self.history = None
        for note in (record for record in new.values() if record.takes_back):
            self._forget({*note.takes_back})
            if note.tokens_before and self.rest_window is None:
                self.rest(note.tokens_before, UNDONE, note.tokens_after)
        return list(new.values())

    def exported(self) -> list[CompactionRecord]:
        """Return all records, notes of pins among them, and a note of those that were taken back."""
        if not self.undone:
            return [*self.records]
        until, window = (self.rest_until, self.rest_window or 0) if self.rest_why == UNDONE else (0, 0)
        return [*self.records, undo_note(self.undone, until, window)]

    @property
    def has_work_by_hand(self) -> bool:
        """Whether messages were pinned, or a compaction was made or undone by hand."""
        made = (record.is_note or record.reason is CompactionReason.MANUAL for record in self.records)
        return bool(self.undone) or any(made)

    def _is_new(self, record: CompactionRecord) -> bool:
        return not self.undone.issuperset(record.takes_back) if record.takes_back else not self.knows(record.id)

    def knows(self, record_id: str) -> bool:
        """Whether a record is here already, or was and has been taken back."""
        return record_id in self.undone or any(record.id == record_id for record in self.records)

    def add_own_record(self, record: CompactionRecord) -> None:
        """Put a record in force that was made from the present history."""
        self.undone.discard(record.id)
        known = known_products([record], onto=self.known)
        self.records = [*(old for old in self.records if old.id != record.id), record]
        self._records_changed(known)

    def take_over(self, sibling: Conversation[Any]) -> None:
        """Take over what is known of the same conversation in another format: its records, and which were taken back."""
        self._forget(sibling.undone - {record.id for record in sibling.records})
        self.add_records([*sibling.records])

    def take_back(self, record: CompactionRecord) -> list[CompactionRecord]:
        """Forget a record, and what other workers made in its place; return them all.

        A list that begins with one of their summaries is then read as one nobody has a record of.
        """
        rivals = [old for old in self.records if old.parent == record.parent]
        if self.history is None:
            gone = [old for old in rivals if old.covered_digest == record.covered_digest]
        else:
            gone = [old for old in rivals if is_true(self.history, old)]
        self._forget({old.id for old in gone})
        self.in_force = record.parent
        return gone

    def _forget(self, ids: Set[str]) -> None:
        self.undone |= ids
        kept = [old for old in self.records if old.id not in ids]
        if len(kept) < len(self.records):
            self.records = kept
            self._records_changed()
            self.history = None
            self.reasoning.is_rewritten = True

    def drop_missing(self) -> None:
        """Forget the records that the store no longer has, and the pins that only they held."""
        if self.missing:
            self.stored -= self.missing
            self._forget(self.missing)
            self.missing, self.user_pins = frozenset(), {}
            self._records_changed()

    def note_written(self, wish: Save | Remove) -> None:
        """Note that the store was told."""
        if isinstance(wish, Save):
            self.stored.add(wish.record_id)
        else:
            self.stored.discard(wish.record_id)

    def saved_calibration(self, model: str | None) -> dict[str, object]:
        """Return what usage taught of a model as a record keeps it, with what it is true of; empty when it taught nothing."""
        learned = self.calibrations.get(model)
        return {} if learned is None else {**self._measure, "model": model, **learned.to_dict()}

    def _learn_from_records(self) -> None:
        """Take over what usage had taught when the records were made, the newest for each model that nothing is known of yet.

        It holds for the estimator it was learned with. In the same format it is taken for the same host, restarted: what that
        hides in front of the messages is there again, and without it the first request would be taken for too small. Where it
        hides less by now, the overhead stays too high until a smaller view is counted, as within one process: that costs an
        early compaction, never an overflow. Another framework hides something else: of its records the ratio holds.
        """
        for record in reversed(self.records):
            saved = record.calibration
            model, learned = saved.get("model"), Calibration.from_dict(saved)
            if saved.get("estimator") != self._measure["estimator"] or not isinstance(model, str | None):
                continue
            if saved.get("format") != self._measure["format"]:
                learned = learned.for_another_conversation()
            if learned != _UNTAUGHT:
                self.calibrations.setdefault(model, learned)

    @property
    def _measure(self) -> dict[str, object]:
        """What a calibration is true of beside its model."""
        return {"estimator": self.estimator.name, "format": self.format.name}

    def _records_changed(self, known: Known | None = None) -> None:
        self.records.sort(key=precedence)
        self.known = known or known_products(self.records)
        pins = [pin for record in self.records for pin in record.pins if pin.is_users]
        self.user_pins.update({pin.digest: pin.run for pin in pins})
        self.frame = None

    def rest(self, until: int, why: str, window: int) -> None:
        """Put threshold compaction off until the context is this large (tokens), for models with this window."""
        self.rest_until, self.rest_why, self.rest_window = until, why, window

    def learn_media(self, sizes: Iterable[tuple[Media, int]]) -> None:
        """Take in how much larger media are than estimated; everything is measured anew."""
        for media, tokens in sizes:
            self.estimator.learn(media, tokens)
        self.history = self.frame = self.anchor = self.weighed = self.projected = self.offered = None

    def to_send(self, view: list[M]) -> list[M]:
        """Return a view as it is sent."""
        # Its size is that of the messages apart: a merge saves a few tokens each, so what fits apart fits merged.
        return merge_user_messages(view, self.format) if self.merges_user_messages else view

    def remember_sent(self, last_sent: LastSent[M]) -> None:
        """Remember the view a caller gets."""
        self.last_sent = last_sent
        if self.history is not None:
            self.reasoning.note_handed_out(self.history)
        if last_sent.key.model is not None:
            self.models.add(last_sent.key.model)

    def mended(self, messages: list[M]) -> list[M]:
        """Return a list with what was broken put right: the very list when nothing is.

        What was made for that is the same object as last time where it is equal, so that only what is new is read again.
        """
        from compaction_hooks.repair import repaired  # not everybody has a history to mend

        mended = repaired(messages, self.format)
        if mended is not messages:
            hosts = set(map(id, messages))
            made = ((place, message) for place, message in enumerate(mended) if id(message) not in hosts)
            known, self.made = self.made, {}
            for place, message in made:
                name = tuple(self.format.read(message))
                old = known.get(name)
                if old is not None and old == message:
                    mended[place] = message = old
                self.made[name] = message
        return mended

    def current(self) -> CompactionRecord | None:
        """Return the record in force for the list last seen, or None; before the first list, the record that was made last."""
        if self.history is not None:
            return self.newest_true(self.history)
        if self.in_force is None and self.last_sent is None:
            made = (record for record in self.records if not record.is_note)
            return max(made, key=lambda record: (record.last_compacted_at, precedence(record)), default=None)
        return next((record for record in self.records if record.id == self.in_force), None)

    def read(self, messages: Sequence[M]) -> History[M]:
        """Read a list, looking only at what is new."""
        if self.is_format_open:
            self.settle_format(messages)
        if self.glanced_at is messages and self.history is not None and self.history.host_count == len(messages):
            self.glanced_at = None
            return self.history
        self.glanced_at = None
        self.history = self.reader.sync(self.history, messages, self.known)
        return self.history

    def newest_true(self, history: History[M]) -> CompactionRecord | None:
        """Return the record in force for a history, or None."""
        return newest_true(history, self.records)

    def read_for_record(self, messages: Sequence[M]) -> tuple[History[M], CompactionRecord | None]:
        """Read a list and find the record in force; before another one comes into force, every message is read again.

        So a message that the host changed in place is noticed at the latest here.
        """
        history = self.read(messages)
        record = self.newest_true(history)
        if record is not None and record.id != self.in_force:
            history = self.history = self.reader.verify(history, messages)
            record = self.newest_true(history)
        self.in_force = record.id if record else None
        return history, record

    def ancestry(self, record: CompactionRecord | None) -> list[CompactionRecord]:
        """Return a record and those it was made of, as far as they are here, oldest first."""
        by_id = {known.id: known for known in self.records}
        chain: dict[str, CompactionRecord] = {}
        while record is not None and record.id not in chain:
            chain[record.id] = record
            record = by_id.get(record.parent or "")
        return [*reversed(chain.values())]

    def projection(self, history: History[M], record: CompactionRecord | None, stale_runs: int = 0) -> Projection[M]:
        """Return a record applied to a history; kept for the histories that grow from this one."""
        name = (record.id if record else None, history.log, history.log.replaced)
        earlier: Projection[M] | None = None
        if self.projected is not None and self.projected[0][1:] == name[1:]:
            earlier = self.projected[1]
            # Another request may be the current one by now: a new process would not favour the one before.
            is_same = self.projected[0] == name and earlier.stale_runs == stale_runs
            if is_same and earlier.is_settled and earlier.favoured in (None, history.request):
                return earlier
        offered = self.offered[1] if self.offered is not None and self.offered[0] == name else None
        if offered is not None and offered.stale_runs == stale_runs:
            projection = offered
        else:
            estimate = self.estimator.estimate_message_tokens
            projection = apply_record(history, record, self.format, estimate, earlier, stale_runs=stale_runs)
        self.projected, self.offered = (name, projection), None
        history.log.show(projection.borrowed)
        return projection

    def pin(self, message: M) -> CompactionRecord | None:
        """Keep a message word for word for good: this one, where several say the same.

        Returns:
            The note that keeps the pin until a compaction does and after it was undone; None if it is here already.
        """
        pins = self._pins(message)
        note = pin_note(pins)
        if not pins or any(record.id == note.id for record in self.records):
            return None
        if all(pin.run == UNKNOWN_RUN for pin in pins):
            self.unseen_pins.append({pin.digest for pin in pins})
        self.undone.discard(note.id)
        self.records.append(note)
        self._records_changed(self.known)
        self.keep(message)
        return note

    def keep(self, message: M) -> None:
        """Keep a message word for word in the views of this process, until a record holds the pin."""
        self.user_pins.update({pin.digest: pin.run for pin in self._pins(message)})

    def _pins(self, message: M) -> list[Pin]:
        self.settle_format([message])
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
