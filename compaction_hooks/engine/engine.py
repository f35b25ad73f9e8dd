"""One conversation with the driver that runs its flows, and what needs no flow: records, budgets, undo.

1. A change by hand is made at once, under the lock of the conversation.
2. Its changes of records are queued for the store, and written at once if this thread may use the store (`save_in_this_thread`),
   else by the next call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, cast

from compaction_hooks.engine.call import Call, SharedState, budget_for
from compaction_hooks.engine.conversation import GUESSED_FORMAT, UNDONE, Conversation
from compaction_hooks.engine.cooldown import Pause
from compaction_hooks.engine.looking import learn_and_look
from compaction_hooks.engine.measuring import report_usage
from compaction_hooks.engine.persistence import load, write
from compaction_hooks.engine.records import StoreQueue
from compaction_hooks.engine.send import handle_answer
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.engine.transform import transform
from compaction_hooks.history import History
from compaction_hooks.messages import M, Message, MessageFormat, Usage, as_format
from compaction_hooks.runtime.drivers import Driver, Services
from compaction_hooks.runtime.effects import Failure, Flow, Send, Success
from compaction_hooks.stores.tombstones import format_time
from compaction_hooks.tokens.budget import UNDO_GROWTH_RATIO, Budget
from compaction_hooks.tokens.estimator import LearnedMedia, TokenEstimator
from compaction_hooks.view.record import NATIVE_MARK, CompactionRecord, undo_note
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")


class Engine(Generic[M]):
    """One conversation at work: its state, the state shared by its controller, and the driver of its flows."""

    def __init__(self, conversation: Conversation[M], shared: SharedState, services: Services) -> None:
        self.conversation, self.shared = conversation, shared
        self.driver = Driver(services, conversation.lock)
        self.services = services

    def begin_call(self) -> float | None:
        """Note that a model call begins now; return the seconds since the last one began, or None before the first one."""
        with self.conversation.lock:
            now = self.services.seconds()
            last, self.conversation.called_at = self.conversation.called_at, now
        return None if last is None else now - last

    def send(self, call: Call[M], read: Callable[[object], Message | None]) -> Flow[object]:
        """Return the flow of a model call, with recovery.

        Args:
            read: Reads a response into an assistant message, for its usage and how it ended.
        """
        sent = yield from transform(self.conversation, call)
        answer: Success | Failure = yield Send(sent.view)
        return (yield from handle_answer(self.conversation, call, read, sent, answer))

    def report_usage(self, usage: Usage, view: list[M] | None, model: str | None) -> None:
        """Learn from a usage report; ignore that of a list other than the one last handed out."""
        with self.conversation.lock:
            last = self.conversation.last_sent
            if view is None or (last is not None and (view is last.view or view is last.to_store)):
                report_usage(self.conversation, self.shared, usage, last and last.snapshot, model)

    def use_format(self, format: MessageFormat[Any]) -> None:
        """Read the next list in this format; records and pins stay."""
        with self.conversation.lock:
            if format.name != self.conversation.format.name or self.conversation.format is GUESSED_FORMAT:
                self.conversation.use_format(as_format(format))

    @property
    def is_only_copy(self) -> bool:
        """Whether changes by hand are in no store."""
        conversation = self.conversation
        is_stored = conversation.queue.has_store and not conversation.queue.unwritten
        return conversation.records.has_manual_changes and not is_stored

    def find_unknown(self, records: Iterable[object]) -> list[Any]:
        """Return the records, as plain JSON, that are neither here nor were undone; what is no record at all, too."""
        with self.conversation.lock:
            return [
                each
                for each in records
                if not isinstance(each, Mapping)
                or not self.conversation.records.knows(str(cast("Mapping[str, object]", each).get("id")))
            ]

    def import_records(self, records: Iterable[CompactionRecord]) -> int:
        """Add records, and queue them for the store; return the number of new ones.

        A note of undone records is not stored itself: the records that it names are removed from the store.
        """
        conversation = self.conversation
        with conversation.lock:
            new = conversation.add_records(records)

            for record in new:
                for record_id in record.takes_back:
                    if record_id.endswith(NATIVE_MARK):
                        # Only the native items of a record were refused: the record stays, with a note, which has no cooldown.
                        conversation.queue.save(undo_note([record_id], cooldown_tokens=0, cooldown_window=0))
                    else:
                        conversation.queue.remove(record_id)
                if not record.takes_back:
                    conversation.queue.save(record)
        return len(new)

    def last_budget(self) -> Budget | None:
        """Return the budget of the view last sent, else that of a call without options; None if the window is unknown."""
        last, shared = self.conversation.newest_snapshot, self.shared
        if last is not None:
            return last.budget
        return budget_for(Call(list[M](), shared.find_settings(shared.model), shared))

    def load(self, call: Call[M] | None) -> Flow[None]:
        """Load the stored records, and measure the view of a call's list."""
        yield from load(self.conversation)
        if call is not None:
            snapshot = learn_and_look(self.conversation, call)
            if self.conversation.last_sent is None:
                self.conversation.newest_view = LastSent(snapshot, call.messages, call.messages, is_sent=False)

    def undo(self) -> CompactionRecord | None:
        """Undo the newest compaction of the list last seen, and begin its cooldown; return its record, or None.

        A list that is a stored result has no messages to go back to.
        """
        conversation = self.conversation
        with conversation.lock:
            record, history = conversation.find_current(), conversation.history
            if (
                history is not None
                and history.has_summary  # without a record: of a process whose store this one does not have
                and (record is None or self._look_again(history).view.is_identity)
            ):
                logger.warning(
                    "session %s: undo does nothing: the list is a stored result, it begins with the summary and lacks the "
                    "messages that the summary covers",
                    conversation.id,
                )
                return None
            if record is None:
                return None
            for old in conversation.revoke(record):
                conversation.queue.remove(old.id)

            budget, tokens = self.last_budget(), record.tokens_before
            if history is not None:  # the list without the record may have grown since
                snapshot = self._look_again(history)
                tokens, budget = snapshot.tokens, snapshot.budget
            until = int(tokens * (1 + UNDO_GROWTH_RATIO))
            conversation.cooldown.pause = Pause(until, UNDONE, budget.window if budget else 0)
        self.save_in_this_thread()
        return record

    def _look_again(self, history: History[M]) -> Snapshot[M]:
        """Read the list of a history again, for the model of the view last sent, and return its snapshot."""
        last, budget = self.conversation.newest_snapshot, self.last_budget()
        model = last.key.model if last else None
        settings = self.shared.find_settings(model or self.shared.model)
        window = budget.window if budget else None
        call = Call(history.hosts(), settings, self.shared, model=model, context_window=window)
        return learn_and_look(self.conversation, call)

    def save_in_this_thread(self) -> None:
        """Write the queued changes, unless the store belongs to the event loop that runs in this thread."""
        if self.conversation.queue.unwritten and self.driver.can_store_here:
            self.driver.run_sync(write(self.conversation))


def make_engine(
    id: str, format: MessageFormat[M] | None, estimator: TokenEstimator, shared: SharedState, services: Services
) -> Engine[M]:
    """Return the engine of a new conversation."""
    queue = StoreQueue(has_store=services.store is not None)
    begun_at = format_time(services.clock().utc)
    return Engine(Conversation(id, begun_at, format, LearnedMedia(estimator), queue), shared, services)
