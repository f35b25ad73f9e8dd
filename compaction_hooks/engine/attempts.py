"""The compactions of one conversation, one at a time: the first of the four classes of flows (see engine.py)."""

from __future__ import annotations

import logging
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Generic

from compaction_hooks.engine.call import Call, SharedState
from compaction_hooks.engine.conversation import Conversation, first_uncovered
from compaction_hooks.engine.measuring import take_snapshot
from compaction_hooks.engine.orders import Order
from compaction_hooks.engine.persistence import flush, reload, sync_store
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.errors import ContextOverflowError, describe_error
from compaction_hooks.files import FileOperations, merge
from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import Emit, Flow, InFlight, Instant, Now, Outcome, Wait, Work
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.view.snapshot import Snapshot

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.engine.compaction import Compaction
    from compaction_hooks.events import CompactionStarted

logger = logging.getLogger("compaction_hooks")

COMPACTION = "compaction_hooks.engine.compaction"
"""The module of an attempt, with all that it needs."""

_END: dict[CompactionOutcome, Outcome] = {
    CompactionOutcome.COMPACTED: "settled",
    CompactionOutcome.ABORTED: "aborted",
    CompactionOutcome.PREVIEWED: "aborted",
}
"""How each outcome appears to the callers that waited for the attempt; any other outcome is "failed"."""


class Attempts(Generic[M]):
    """Runs the compactions of one conversation, one at a time, and keeps its records in step with the store."""

    def __init__(self, conversation: Conversation[M], shared: SharedState) -> None:
        self.conversation = conversation
        self.shared = shared

    def take_snapshot(self, call: Call[M]) -> Snapshot[M]:
        """Return a snapshot of the list in a call."""
        return take_snapshot(self.conversation, self.shared, call)

    def hand_out(self, call: Call[M], snapshot: Snapshot[M]) -> Flow[LastSent[M]]:
        """Return the view to send of a snapshot just taken, and store the notes about it."""
        while True:
            sent = self.conversation.hand_out(snapshot)
            if not self.conversation.queue.unwritten:
                return sent
            snapshot = snapshot.freeze(call.messages)
            yield from flush(self.conversation)
            if snapshot.is_current:
                return sent
            snapshot = self.take_snapshot(call)

    def find_budget(self, snapshot: Snapshot[M]) -> Budget:
        """Return the budget of the model's window, or of a window as large as the context if the window is unknown."""
        return snapshot.budget or self.shared.find_settings(snapshot.model).budget(max(snapshot.tokens, 1))

    def run_compaction(self, call: Call[M], order: Order) -> Flow[tuple[Compaction[M], CompactionResult[M]]]:
        """Compact. If the host changed the history meanwhile, try again, the second time without a model, which takes no time."""
        attempt, result = yield from self._run_attempt(call, order)
        for may_ask in (True, False):
            if attempt.is_outdated:
                again = order._replace(may_ask=order.may_ask and may_ask)
                attempt, result = yield from self._run_attempt(call, again)
        return attempt, result

    def _run_attempt(self, call: Call[M], order: Order) -> Flow[tuple[Compaction[M], CompactionResult[M]]]:
        """Run one attempt; other callers of this conversation wait for it."""
        self.conversation.drop_missing()
        snapshot = self.take_snapshot(call).freeze(call.messages)
        budget = self.find_budget(snapshot)

        flight = self.conversation.flight = InFlight()
        end: Outcome = "aborted"
        try:
            start: Instant = yield Now()
            if not order.is_preview:
                yield Emit(_build_started_event(self.conversation.id, snapshot, order))
            order = order._replace(host_files=(yield from self._read_host_files(order)))
            if (
                COMPACTION not in sys.modules
            ):  # a third of the package: imported outside the event loop, which it would stop
                yield Work(partial(import_module, COMPACTION))
            # Read again only now: the event handlers may have taken time, in which the host wrote into its messages.
            attempt = self.new_compaction(call, snapshot, budget, order)
            result = yield from attempt.run(start)
            end = _END.get(result.outcome, "failed")
        except ContextOverflowError:
            end = "failed"
            raise
        finally:
            if self.conversation.flight is flight:
                self.conversation.flight = None
            flight.done.set_result(end)
        return attempt, result

    def _read_host_files(self, order: Order) -> Flow[FileOperations]:
        """Return the files that the host keeps track of, without those of a function that fails; that is reported."""
        files = FileOperations()
        for read in (self.shared.host_files, self.conversation.host_files):
            try:
                files = merge(files, read()) if read else files
            except Exception as error:  # noqa: BLE001 - a host's function may raise anything
                from compaction_hooks.events import HostFilesFailed  # needed only when something happens

                event = HostFilesFailed(session_id=self.conversation.id, error=describe_error(error))
                logger.warning("%s", event)
                if not order.is_preview:
                    yield Emit(event)
        return files

    def new_compaction(self, call: Call[M], snapshot: Snapshot[M], budget: Budget, order: Order) -> Compaction[M]:
        """Return an attempt to compact that has not begun."""
        from compaction_hooks.engine.compaction import Compaction  # see `_run_attempt`

        return Compaction(self.conversation, self.shared, call, self._verify(call, snapshot), budget, order)

    def _verify(self, call: Call[M], snapshot: Snapshot[M]) -> Snapshot[M]:
        """Return a snapshot of the list as it is now; the messages of the view are read again for changes in place."""
        history, record = snapshot.history, snapshot.record
        start = first_uncovered(history, record) if record else 0
        is_same = snapshot.is_current and self.conversation.verify(snapshot, start)
        return snapshot if is_same else self.take_snapshot(call).freeze(call.messages)

    def wait_for_others(self) -> Flow[Outcome | None]:
        """Wait for a compaction under way; return how it ended, or None if there was none."""
        end: Outcome | None = None
        while self.conversation.flight is not None:
            end = yield Wait(self.conversation.flight)
            if end != "settled":
                break
        return end

    def sync_store(self, *, before_paying: bool) -> Flow[bool]:
        """Exchange records with the store; return whether it need not be asked again in this call.

        Args:
            before_paying: A summary is about to be paid for: load again, since another worker may have made one.
        """
        if not self.conversation.queue.has_store:
            return True
        is_fresh: bool = yield from sync_store(self.conversation)
        if before_paying and not is_fresh:
            yield from reload(self.conversation)
        return is_fresh or before_paying


def _build_started_event(session_id: str, snapshot: Snapshot[M], order: Order) -> CompactionStarted:
    from compaction_hooks.events import CompactionStarted  # needed only when something happens

    budget = snapshot.budget
    return CompactionStarted(
        session_id=session_id,
        reason=order.reason,
        why=order.due.reason if order.due else "",
        tokens_before=snapshot.tokens,
        messages_before=len(snapshot.view),
        trigger_tokens=budget.trigger if budget else None,
        context_window=budget.window if budget else None,
    )
