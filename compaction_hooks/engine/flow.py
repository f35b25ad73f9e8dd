"""Preparing the view of one call: the second of the four classes of flows (see engine.py).

A flow is a generator that yields effects to the async or the sync driver. Between two effects it runs under the lock of the
conversation; while it waits for an answer, it holds no lock.
"""

from __future__ import annotations

import logging

from compaction_hooks.engine.attempts import Attempts
from compaction_hooks.engine.call import Call
from compaction_hooks.engine.orders import Order
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import (
    Emit,
    Flow,
    IsAborted,
    Outcome,
    Wait,
)
from compaction_hooks.tokens.windows import unknown_window_error
from compaction_hooks.triggers import Due, RatioTrigger
from compaction_hooks.view.projection import is_true
from compaction_hooks.view.record import CompactionReason, CompactionRecord
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")


class ConversationFlow(Attempts[M]):
    """Prepares the view of a call, and compacts by hand."""

    def transform(self, call: Call[M]) -> Flow[LastSent[M]]:
        """Return the view to send; compact first when the threshold is passed or the last call overflowed silently."""
        is_fresh = yield from self.sync_store(before_paying=False)
        yield from self._report_missing_pins(call)

        may_ask = True
        may_wait = True
        # Each effect lets other callers run, and they may compact: after a wait, take a new snapshot and decide again.
        while True:
            snapshot, is_fresh = yield from self._take_informed_snapshot(call, is_fresh=is_fresh)
            reason, due = self._find_reason(snapshot, call)
            only_media = reason is None and self._exceeds_byte_limit(snapshot)
            if only_media:
                reason = CompactionReason.OVERFLOW
            if reason is None:
                return (yield from self.hand_out(call, snapshot))

            if reason is CompactionReason.THRESHOLD and call.server_compaction:
                yield from self._leave_to_server(snapshot, call.server_compaction)
                return (yield from self.hand_out(call, self.take_snapshot(call)))

            is_aborted: bool = yield IsAborted()
            why = "aborted" if is_aborted else self._reason_to_wait(snapshot, reason)
            if why:
                yield from self._skip(snapshot, reason, why)
                return (yield from self.hand_out(call, self.take_snapshot(call)))

            flight = self.conversation.flight
            if flight is not None and may_wait:
                end: Outcome = yield Wait(flight)
                may_ask = may_ask and end != "failed"
                may_wait = flight.done.done()
                continue

            # Only now, since most calls do not compact: another worker may have paid for this summary already.
            if not is_fresh:
                is_fresh = yield from self.sync_store(before_paying=True)
                continue

            order = Order(reason=reason, may_ask=may_ask, due=due, only_media=only_media)
            attempt, _ = yield from self.run_compaction(call, order)
            self.conversation.cooldown.has_overflowed = False
            return attempt.last_sent or (yield from self.hand_out(call, self.take_snapshot(call)))

    def _take_informed_snapshot(self, call: Call[M], *, is_fresh: bool) -> Flow[tuple[Snapshot[M], bool]]:
        """Return a snapshot that lacks no note of this list, and whether the records were loaded for this call.

        Args:
            is_fresh: Whether they were before.
        """
        reasoning = self.conversation.reasoning
        while True:
            snapshot = self.take_snapshot(call)
            if reasoning.record_call(snapshot.history, snapshot.shown_record):
                pass  # other reasoning is stale now
            elif snapshot.binds_reasoning and not is_fresh and reasoning.has_answer_of_another(snapshot.history):
                is_fresh = yield from self.sync_store(before_paying=True)
            else:
                return snapshot, is_fresh

    def compact(self, call: Call[M], order: Order) -> Flow[CompactionResult[M]]:
        """Compact by hand, whatever the size.

        Raises:
            ContextOverflowError: the list does not fit the window and cannot be made to.
        """
        yield from self.sync_store(before_paying=True)
        if not order.is_preview:
            yield from self._report_missing_pins(call)

        others_end = yield from self.wait_for_others()
        is_aborted: bool = yield IsAborted()
        snapshot = self.take_snapshot(call)
        record = snapshot.record
        if is_aborted:
            return self._report_unchanged(snapshot, CompactionOutcome.ABORTED, order)

        is_done = record is not None and record.seen_runs == snapshot.history.run_count and snapshot.fits_window
        if order.keep is None and is_done:
            # Compacted already, with no message since: a caller that waited shares that result, any other one is told.
            is_shared = others_end == "settled"
            outcome = CompactionOutcome.COMPACTED if is_shared else CompactionOutcome.NOTHING_TO_COMPACT
            return self._report_unchanged(snapshot, outcome, order)

        if order.previewed is not None and not _is_still_good(order.previewed, snapshot):
            order = order._replace(previewed=None)
        _, result = yield from self.run_compaction(call, order)
        return result

    def _find_reason(self, snapshot: Snapshot[M], call: Call[M]) -> tuple[CompactionReason | None, Due | None]:
        """Return why a compaction is due, or None, with the trigger's answer."""
        settings = call.settings
        if self.conversation.cooldown.has_overflowed and settings.compact_on_overflow:
            return CompactionReason.OVERFLOW, None
        if not settings.auto_compact or settings.is_subagent:
            return None, None
        if snapshot.budget is None:
            self._check_trigger(call)
            return None, None
        due = settings.effective_trigger.due(snapshot)
        told = self.conversation.id, snapshot.tokens, snapshot.budget.trigger, due.reason if due else "not due"
        logger.debug("session %s: %d tokens for a trigger of %d: %s", *told)
        # A trigger decides when, not whether the answer has room.
        if due is None and snapshot.tokens > snapshot.input_limit:
            due = Due(f"above {snapshot.input_limit:,} tokens")
        return (CompactionReason.THRESHOLD if due else None), due

    def _check_trigger(self, call: Call[M]) -> None:
        """Refuse a trigger that is a part of the window, unless an earlier call had one: a run must not end with a fallback model.

        Raises:
            ConfigurationError: no window is known.
        """
        last = self.conversation.last_sent
        if call.server_compaction or (last is not None and last.budget is not None):
            return
        for written, part in call.settings.triggers.items():
            if isinstance(part, RatioTrigger):
                raise unknown_window_error(written, call.model or self.shared.model)

    def _reason_to_wait(self, snapshot: Snapshot[M], reason: CompactionReason) -> str:
        is_threshold = reason is CompactionReason.THRESHOLD
        return self.conversation.cooldown.reason_to_wait(snapshot) if is_threshold else ""

    def _leave_to_server(self, snapshot: Snapshot[M], option: str) -> Flow[None]:
        """Skip the threshold, because an option of the request makes the server compact; report it once."""
        if self.conversation.server_compaction != option:
            self.conversation.server_compaction = option
            yield from self._skip(snapshot, CompactionReason.THRESHOLD, f"left to the server ({option})")

    def _exceeds_byte_limit(self, snapshot: Snapshot[M]) -> bool:
        """Whether the provider would refuse a view for its bytes, as far as an earlier refusal tells."""
        most = self.conversation.cooldown.max_chars
        if most is None:
            return False
        from compaction_hooks.strategies.drop_media import view_chars  # few requests are refused for their bytes

        return view_chars(snapshot, snapshot.projection) > most

    def _report_unchanged(self, snapshot: Snapshot[M], outcome: CompactionOutcome, order: Order) -> CompactionResult[M]:
        record = snapshot.record
        is_new = outcome is CompactionOutcome.COMPACTED and record is not None
        return CompactionResult(
            messages=snapshot.stored_view if order.is_preview else self.conversation.hand_out(snapshot).unmerged,
            record=record,
            outcome=outcome,
            reason=CompactionReason.MANUAL,
            tokens_before=record.tokens_before if record and is_new else snapshot.tokens,
            tokens_after=snapshot.tokens,
        )

    def _skip(self, snapshot: Snapshot[M], reason: CompactionReason, why: str) -> Flow[None]:
        from compaction_hooks.events import CompactionSkipped  # needed only when something happens

        yield Emit(CompactionSkipped(session_id=self.conversation.id, reason=reason, why=why, tokens=snapshot.tokens))

    def _report_missing_pins(self, call: Call[M]) -> Flow[None]:
        """Report messages that were pinned before a list had them, if this list does not have them either."""
        conversation = self.conversation
        if not conversation.records.unseen_pins:
            return
        history = self.take_snapshot(call).history
        digests = {message_digest(history.piece(index).message) for index in range(history.piece_count)}
        unseen = conversation.records.unseen_pins
        conversation.records.unseen_pins = []
        count = sum(not digests.issuperset(pinned) for pinned in unseen)
        if count:
            from compaction_hooks.events import PinMissing  # needed only when something happens

            logger.warning("session %s: the list has not %d of the messages that were pinned", conversation.id, count)
            yield Emit(PinMissing(session_id=conversation.id, count=count))


def _is_still_good(record: CompactionRecord, snapshot: Snapshot[M]) -> bool:
    """Return whether the record of a preview is true of a list, and follows its active record."""
    return is_true(snapshot.history, record) and record.parent == (snapshot.record.id if snapshot.record else None)
