"""The state of one conversation between calls, in memory.

1. It changes only under its lock, between two effects of a flow: while a flow waits for the world, another call may change it.
2. Each list is read once, by `read`: the reading and the active record change there, and with them the newest view.
3. A record is active because it is true of the list last read. An undo, a foreign record and a changed message end that.
4. What must outlive the process (a record, a pin, an undo, a note) is queued for the store by the step that changes it.
5. Records, sizes, cooldown and reasoning have owners (`records`, `sizes`, `cooldown`, `reasoning`), which hold their rules.
6. If another worker forgot the conversation, it begins anew here, but for its format and the host's functions.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Set
from typing import Final, Generic, cast

from compaction_hooks.compact_tool import ToolOrders
from compaction_hooks.dress.listed_summaries import find_native_start, native_name, native_of, note_issuers
from compaction_hooks.engine.background import Background
from compaction_hooks.engine.cooldown import Cooldown, Pause
from compaction_hooks.engine.pressure import Pressure
from compaction_hooks.engine.reasoning import ReasoningState
from compaction_hooks.engine.records import Records, StoreQueue
from compaction_hooks.engine.sizes import LastSent, ModelCounts, Sizes, UsageBaseline
from compaction_hooks.engine.totals import Totals
from compaction_hooks.engine.views import Large, Views
from compaction_hooks.foreign import are_equal
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import has_atoms
from compaction_hooks.messages import Format, M, Media, MessageFormat, Usage, as_format
from compaction_hooks.recall.covered import Listing
from compaction_hooks.repair import repaired
from compaction_hooks.runtime.effects import RunningCompaction
from compaction_hooks.runtime.tellers import Tellers
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.estimator import LearnedMedia
from compaction_hooks.view.record import (
    UNKNOWN_RUN,
    CompactionRecord,
    Pin,
    StaleRuns,
    undo_note,
)
from compaction_hooks.view.references import Beginning
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import SUMMARY_MARKER

logger = logging.getLogger("compaction_hooks")

UNDONE: Final = "undone"
"""The reason for the cooldown after `undo`."""


GUESSED_FORMAT: Final = OpenAIChatFormat()
"""The format while none was named and plain text, which reads alike in all formats, is all that was seen."""


class Conversation(Generic[M]):
    """The state of one conversation.

    Attributes:
        begun_at: When its state began, as `format_time` writes it.
        format: How its messages are written.
        estimator: Sizes them, and learns the sizes of media.
        running: The compaction under way, or None.
        newest_view: The view last sent; before the first one that of the list given to `load`, or None.
        views: The newest view.
        background: The summaries that are written while the conversation goes on.
        called_at: When the last call began, in monotonic seconds.
        summary_usage, loaded_usage: The cost of the summaries made here, whatever became of them, and of those of other records.
        totals: What the calls of this process sent.
        tellers: The host's functions that each compaction of this conversation asks, after those of the controller.
        notice: The text that tells the model before its context is cut: "" without one, None for that of the controller.
        reasoning: The models that refuse reasoning, and the run from which on reasoning is valid.
        pressure: What was told of a nearly full context.
        server_compaction: The option of a request for which the threshold was last left to the server; None: it never was.
        has_recall: Whether the model has the recall tool.
        listing: What recall last read of the list; None before its first use.
        tool_orders: The order of the model's tool to compact.
    """

    def __init__(
        self, id: str, begun_at: str, format: MessageFormat[M] | None, estimator: LearnedMedia, queue: StoreQueue
    ) -> None:
        self.id = id
        self.begun_at = begun_at
        # Without a format M is the dicts of providers.
        self.format = as_format(format or cast("MessageFormat[M]", GUESSED_FORMAT))
        self.estimator = estimator
        self.lock = threading.RLock()

        self.running: RunningCompaction | None = None
        self.background = Background()
        self.called_at: float | None = None
        self.tellers = Tellers()
        self.notice: str | None = None
        self.server_compaction: str | None = None
        self.has_recall = False
        self._begin(queue)

    def _begin(self, queue: StoreQueue) -> None:
        """Begin with nothing known of the conversation."""
        self.queue = queue
        self.history: History[M] | None = None
        self.records = Records()
        self.sizes = Sizes()
        self.cooldown = Cooldown()
        self.reasoning = ReasoningState()
        self.pressure = Pressure()
        self.background = Background(is_on=self.background.is_on)
        self.newest_view: LastSent[M] | None = None
        self.views = Views[M]()
        self.summary_usage = self.loaded_usage = Usage(input_tokens=0)
        self.totals = Totals()
        self.listing: Listing[M] | None = None
        self.tool_orders = ToolOrders()

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing here that a store may get: no record, no change, no compaction under way."""
        return not (self.records.all or self.records.undone or self.queue.unwritten or self.running)

    @property
    def is_unused(self) -> bool:
        """Whether it is blank, and no list of it was read."""
        return self.is_blank and self.views.is_empty

    def begin_anew(self) -> None:
        """Discard what is known of the conversation: another worker forgot it. A write under way is taken out again."""
        queue = StoreQueue(has_store=True)
        queue.heard = self.queue.heard
        self.queue.state = "none"
        self._begin(queue)

    @property
    def reader(self) -> HistoryReader[M]:
        """Reads lists of this conversation."""
        return HistoryReader(self.format, self.estimator.estimate_message_tokens, SUMMARY_MARKER)

    @property
    def last_sent(self) -> LastSent[M] | None:
        """The view last sent, or None before the first one."""
        newest = self.newest_view
        return newest if newest is not None and newest.is_sent else None

    @property
    def newest_snapshot(self) -> Snapshot[M] | None:
        """The snapshot of the view last sent; before the first one that of the list given to `load`, or None."""
        return self.newest_view.snapshot if self.newest_view is not None else None

    @property
    def newest_count(self) -> UsageBaseline | None:
        """The provider's own count of that view, or None."""
        last, baseline = self.newest_snapshot, self.sizes.baseline
        return baseline if last is not None and baseline is not None and baseline.key == last.key else None

    @property
    def newest_tokens(self) -> int | None:
        """Size of that view in tokens: as the provider counted it, else by estimate; None without a view."""
        last, counted = self.newest_snapshot, self.newest_count
        return counted.input_tokens if counted is not None else last.tokens if last is not None else None

    @property
    def sent_runs(self) -> int:
        """The runs of the list last sent; before the first one more than any list has."""
        last = self.last_sent
        return sys.maxsize if last is None else last.snapshot.history.run_count

    def use_format(self, format: Format[M]) -> None:
        """Use a format in place of the guessed one."""
        is_other = format.name != self.format.name
        self.format = format
        if is_other:
            self.history = self.listing = None
            if self.last_sent is None:  # the records were read for another format, which gives the ratio only
                for model in self.sizes.models:
                    self.sizes.learn(model, None)
                self._learn_from_records()

    def detect_format(self, messages: list[M]) -> None:
        """Detect the format from the new messages of a list, if it is still unknown."""
        if self.format is not GUESSED_FORMAT:
            return
        log = self.history.log if self.history is not None else None
        known = len(log.hosts) if log is not None and log.is_prefix_of(messages) else 0
        found = format_of(messages[known:])
        if found is not None:
            self.use_format(cast("Format[M]", found))  # M is what these messages are

    def add_records(self, records: Iterable[CompactionRecord]) -> list[CompactionRecord]:
        """Add records from elsewhere and return the new ones. If there are any, the next list is read from the start.

        A note of undone records undoes them here too and begins its cooldown; the note itself is not kept.
        """
        new = {record.id: record for record in records if self.records.is_new(record)}
        self.loaded_usage = sum((record.usage for record in new.values() if record.usage), self.loaded_usage)
        kept = [record for record in new.values() if not record.takes_back]
        for note in (record for record in kept if record.is_note and record.stale_runs is not None):
            self.reasoning.learn_from_note(note)
        if kept:
            self.records.add(kept)
            self._learn_from_records()
            self.history = None

        for note in (record for record in new.values() if record.takes_back):
            self._undo({*note.takes_back})
            if note.tokens_before and self.cooldown.pause is None:
                self.cooldown.pause = Pause(note.tokens_before, UNDONE, note.tokens_after)
        return list(new.values())

    def export_all(self) -> list[CompactionRecord]:
        """Return all records, with the notes of pins and a note of the undone records."""
        if not self.records.undone:
            return [*self.records.all]
        pause = self.cooldown.pause
        until, window = (pause.until, pause.window) if pause is not None and pause.why == UNDONE else (0, 0)
        return [*self.records.all, undo_note(self.records.undone, until, window)]

    def revoke(self, record: CompactionRecord) -> list[CompactionRecord]:
        """Undo a record and any competing records of the same parent; return them.

        A list with one of their summaries at its head is then read as a list without a record.
        """
        gone = self.records.find_competing(record, self.history)
        self._undo({old.id for old in gone})
        self.records.active_id = record.parent
        self._keep_note(self.reasoning.record_undo())
        return gone

    def _undo(self, ids: Set[str]) -> None:
        if self.records.undo(ids):
            self.history = None
            self.pressure.end()

    def drop_missing(self) -> None:
        """Remove the records that the store no longer has, with the pins that no other record holds."""
        missing = {record_id for record_id, is_there in self.queue.stored.items() if not is_there}
        if missing:
            self.queue.stored = dict.fromkeys(self.queue.stored.keys() - missing, True)
            self._undo(missing)
            self.records.forget_pins()

    def export_calibration(self, model: str | None) -> dict[str, object]:
        """Return the calibration of a model for a record; an empty dict if there is none."""
        return self.sizes.export_calibration(model, self.estimator.name, self.format.name)

    def _learn_from_records(self) -> None:
        self.sizes.learn_from_records(self.records.all, self.estimator.name, self.format.name)

    def learn_media(self, sizes: Iterable[tuple[Media, int]]) -> None:
        """Learn the true sizes of media, in tokens before calibration; all messages are measured again."""
        for media, tokens in sizes:
            self.estimator.learn(media, tokens)
        self.history, self.views = None, Views[M]()
        self.sizes.baseline = self.sizes.last_checked = None

    def remember_sent(self, snapshot: Snapshot[M]) -> LastSent[M]:
        """Return the view of a snapshot, and remember it, to compare it with the provider's count."""
        view, to_send = snapshot.view, snapshot.to_send
        if view.start is not None and view.start.left_out:
            self._warn_of_left_out(view.start)

        self.sizes.drop_other_lists(snapshot.key)
        self.tool_orders.end_unless_of(snapshot)
        is_stored_alike = view.is_stored_alike and not snapshot.joins_rows
        sent = self.newest_view = LastSent(snapshot, to_send, to_send if is_stored_alike else snapshot.to_store)

        reading, notes = snapshot.reading, self.records.find_reasoning()
        first_behind, binds = self.pressure.first_run_behind(view), reading.binds_reasoning
        note = self.reasoning.record_sent(reading.history, reading.shown_record, notes, first_behind, binds=binds)
        self._keep_note(note)
        if snapshot.model is not None:
            self.sizes.models.setdefault(snapshot.model, ModelCounts())
        return sent

    def end_notice(self) -> None:
        """Show the notice no more, since another process that does not know it has answered; reasoning behind it is stale."""
        if self.pressure.end_sent(self.sent_runs):
            self.reasoning.add_unpinned(StaleRuns(0, self.sent_runs + 1))

    def _warn_of_left_out(self, start: Beginning) -> None:
        """Log that a request cannot send summaries of the list, unless the view before lacked them too."""
        last = self.last_sent.snapshot.view.start if self.last_sent is not None else None
        if last is None or last.left_out != start.left_out:
            logger.warning("session %s: a summary that only another provider or model can read is left out", self.id)

    def _keep_note(self, note: CompactionRecord | None) -> None:
        """Keep a note of stale reasoning here, and queue it for the store."""
        if note is not None:
            replaced = self.records.add_reasoning(note)
            if self.queue.state != "unread":
                self.queue.save(note)
                for old in replaced:
                    self.queue.remove(old.id)

    def repair(self, messages: list[M], model: str | None) -> list[M]:
        """Return a list with its broken parts repaired for a model; the very list if it is valid.

        A message that is repaired is the same object as last time if it is equal, so that only new messages are read again.
        """
        result = repaired(messages, self.format, model=model)
        known = self.history
        if result is not messages and known is not None:
            given = {*map(id, messages)}
            for place, message in enumerate(result[: known.host_count]):
                if id(message) not in given and are_equal(known.host(place), message):
                    result[place] = known.host(place)
        return result

    def find_current(self) -> CompactionRecord | None:
        """Return the active record of the list last read, or None; before the first list, the record made last."""
        if self.history is not None:
            return self.records.find_active(self.history)
        if self.records.active_id is None and self.last_sent is None:
            return self.records.find_newest()
        return self.records.find(self.records.active_id)

    def read(self, messages: list[M]) -> tuple[History[M], CompactionRecord | None]:
        """Read the new messages of a list, and find the active record.

        Before another record becomes active, the messages that it covers are read again: a message that the host changed in place
        is noticed here at the latest.
        """
        history = self.history = self.reader.sync(self.history, messages, self.records.own_texts)
        record = self.records.find_active(history)

        if record is not None and record.id != self.records.active_id:
            active = self.records.find(self.records.active_id)
            # Those of the parent record were read again when the record was made.
            start = first_uncovered(history, active) if active and record.parent == active.id else 0
            history = self.history = self.reader.verify(history, messages, start)
            record = self.records.find_active(history)

        self.records.active_id = record.id if record else None
        return history, record

    def check_shown(self, snapshot: Snapshot[M]) -> bool:
        """Read the messages in a view again, the pins among them; return whether they are unchanged."""
        start = first_uncovered(snapshot.history, snapshot.record) if snapshot.record else 0
        pinned = {kept.host for kept in snapshot.view.kept if kept.host < start}
        return all(self.verify(snapshot, host, host + 1) for host in pinned) and self.verify(snapshot, start)

    def check_covered(self, snapshot: Snapshot[M], count: int) -> bool:
        """Read so many of the messages that the active record covers again, in turn; return whether they are unchanged.

        All of them would cost the more, the longer the conversation is. A change is noticed after at most as many further
        compactions as were made before; in a message that the view shows, by `check_shown` of the next one.
        """
        history, record = snapshot.history, snapshot.record
        covered = first_uncovered(history, record) if record else 0
        start = history.log.checked_until if history.log.checked_until < covered else 0
        history.log.checked_until = end = min(start + count, covered)
        return self.verify(snapshot, start, end)

    def verify(self, snapshot: Snapshot[M], start: int = 0, end: int | None = None) -> bool:
        """Read the messages of a snapshot from `start` to `end` (excluded) again; return whether all are unchanged."""
        history = self.reader.verify(snapshot.history, snapshot.messages, start, end)
        if history is snapshot.history:
            return True  # another caller may have read more meanwhile: that reading stays
        self.history = history
        return False

    def find_large(self, history: History[M], record: CompactionRecord | None, settings: CompactionSettings) -> Large:
        """Return the reductions of the results that are too large for any view, as the settings say.

        A result that was shown shortened stays so, though pinned, until the next compaction: the provider has cached the view.
        """
        if settings.max_result_tokens is None:
            return Large()
        pins = frozenset(self.records.find_settled_pins(record))
        estimate = self.estimator.estimate_message_tokens
        return self.views.find_large(
            history, pins, settings.max_result_tokens, settings.result_rules, estimate, has_recall=self.has_recall
        )

    def find_native_start(self, history: History[M], model: str | None) -> Beginning | None:
        """Return the provider's own summary at which the view of a request begins, or None."""
        if not history.natives():
            return None
        issuers, last = self.records.issuers, self.last_sent
        for note in note_issuers(history, issuers, last.snapshot.model if last else model):
            self.records.add_note(note)
            self.queue.save(note)
            issuers[note.parent] = note.binding_models[0]
        return find_native_start(history, model, issuers, self.records.undone, self.records.user_pins)

    def refuse_items(self, refused: Snapshot[M], now: Snapshot[M]) -> None:
        """Send the provider's own summaries that it refused no more: those in the list, or those that it made for us.

        Args:
            now: The snapshot of the list as it is now.
        """
        if not refused.key.dressed.shows_items:
            names = {native_name(native_of(now.history.piece(index).message)) for index in now.history.natives()}
            self.records.undo(names)
            self.queue.save(undo_note(names, 0, 0))
        elif now.record is not None and now.record.native is not None:  # another caller may have been refused too
            self.queue.save(self.records.refuse_natives(now.record.native.issuer))
            self.sizes.count_native_refusal(refused.model)

    def pin(self, message: M, *, store: bool) -> None:
        """Keep a message word for word; if several are equal, this one.

        Args:
            store: Whether a note keeps the pin until a compaction does, and after an undo.
        """
        pins = self._make_pins(message)
        if not store:
            self.records.keep_pins(pins)
        elif (note := self.records.add_pins(pins)) is not None:
            self.queue.save(note)

    def _make_pins(self, message: M) -> list[Pin]:
        """Return the pins of a message; none of reasoning alone, whose digest would be that of all reasoning of the list."""
        self.detect_format([message])
        history = self.history
        place = self._find_place(history, message) if history else None
        known = [] if history is None or place is None else [*map(history.run_of, history.host_pieces(place))]

        pieces = self.format.read(message)
        # One that the host has added a part to since is known by its content alone.
        runs = known if len(known) == len(pieces) else [UNKNOWN_RUN] * len(pieces)

        return [
            Pin(run=run, digest=message_digest(piece), is_users=True)
            for piece, run in zip(pieces, runs, strict=True)
            if piece.role != "system" and has_atoms(piece)
        ]

    def _find_place(self, history: History[M], message: M) -> int | None:
        """Return the index of a message in the list last read, by its object; None if it is not there."""
        last = self.newest_snapshot
        hosts = enumerate(history.hosts())
        present = enumerate(last.messages[: history.host_count]) if last is not None else ()
        # The history may have an equal object that the host has replaced since; and its list may be another one by now.
        replaced = (place for place, host in present if host is message and are_equal(history.host(place), host))
        return next((place for place, host in hosts if host is message), next(replaced, None))


def first_uncovered(history: History[M], record: CompactionRecord) -> int:
    """Return the index of the first host message that a record does not cover."""
    return history.host_of(history.run_start(max(record.covered_runs, history.runs_before_list)))
