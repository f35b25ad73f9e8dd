"""The compactions of one conversation, one at a time: those that a call needs, and those by hand.

1. While an attempt is under way, `running` says so: other callers wait for it, and learn how it ended. It ends with its attempt,
   whatever happens there.
2. The host's functions are asked once for a compaction, not again for the attempts that repeat it.
"""

from __future__ import annotations

from functools import partial

from compaction_hooks.engine.attempt import Attempt
from compaction_hooks.engine.call import Call, Order
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.looking import learn_and_look, report_missing_pins
from compaction_hooks.engine.persistence import sync_store
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult
from compaction_hooks.errors import ConfigurationError, ContextOverflowError
from compaction_hooks.events import CompactionStarted
from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import Emit, Flow, Instant, IsAborted, Now, Outcome, RunningCompaction, Wait, Work
from compaction_hooks.telling import CompactionPlan
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

_END: dict[CompactionOutcome, Outcome] = {
    CompactionOutcome.COMPACTED: "settled",
    CompactionOutcome.ABORTED: "aborted",
    CompactionOutcome.PREVIEWED: "aborted",
    CompactionOutcome.VETOED: "aborted",
}
"""How each outcome appears to the callers that waited for the attempt; any other outcome is "failed"."""


def compact(conversation: Conversation[M], call: Call[M], order: Order) -> Flow[CompactionResult[M]]:
    """Compact by hand, whatever the size.

    Raises:
        ContextOverflowError: the list does not fit the window and cannot be made to.
    """
    yield from sync_store(conversation, before_paying=True)
    if not order.is_preview:
        yield from report_missing_pins(conversation, call)

    others_end = yield from wait_for_others(conversation)
    is_aborted: bool = yield IsAborted()
    snapshot = learn_and_look(conversation, call)
    if is_aborted:
        return _report_unchanged(conversation, snapshot, CompactionOutcome.ABORTED, order)

    is_shared = others_end == "settled"
    if _is_done(snapshot, order) and (is_shared or snapshot.covered_runs):
        # Summarized already, with no message since: a caller that waited shares that result, any other one is told. If results
        # were only cleared, a compaction by hand makes the summary.
        outcome = CompactionOutcome.COMPACTED if is_shared else CompactionOutcome.NOTHING_TO_COMPACT
        return _report_unchanged(conversation, snapshot, outcome, order)

    _, result = yield from run_compaction(conversation, call, order)
    return result


def plan_by_hand(conversation: Conversation[M], call: Call[M], order: Order) -> Flow[CompactionPlan]:
    """Return what a compaction by hand would do. Nothing is paid for, asked or changed, and no other compaction is waited for."""
    yield from sync_store(conversation, before_paying=False)
    snapshot = learn_and_look(conversation, call).freeze(call.messages)
    start: Instant = yield Now()
    attempt = new_attempt(conversation, call, snapshot, order)
    plan: CompactionPlan | None = None
    if not (_is_done(snapshot, order) and snapshot.covered_runs):
        plan = yield Work(partial(attempt.make_plan, start))
    return plan or CompactionPlan(
        reason=order.reason,
        tokens_before=snapshot.tokens,
        tokens_after=snapshot.tokens,
        compacted_messages=0,
        steps=(),
    )


def _is_done(snapshot: Snapshot[M], order: Order) -> bool:
    """Whether nothing was said since the last compaction, and the order asks for no other part to keep."""
    record = snapshot.record
    is_newest = record is not None and record.seen_runs == snapshot.history.run_count
    return order.keep is None and is_newest and snapshot.fits_window


def run_compaction(
    conversation: Conversation[M], call: Call[M], order: Order
) -> Flow[tuple[Attempt[M], CompactionResult[M]]]:
    """Compact. If the host changed the history meanwhile, try again, the second time without a model, which takes no time."""
    attempt, result = yield from _run_attempt(conversation, call, order)
    for may_ask in (True, False):
        if attempt.is_outdated:
            again = order._replace(may_ask=order.may_ask and may_ask, answers=attempt.answers)
            attempt, result = yield from _run_attempt(conversation, call, again)
    return attempt, result


def _run_attempt(
    conversation: Conversation[M], call: Call[M], order: Order
) -> Flow[tuple[Attempt[M], CompactionResult[M]]]:
    """Run one attempt, with the note of the model's tool; other callers of this conversation wait for it."""
    conversation.drop_missing()
    snapshot = learn_and_look(conversation, call).freeze(call.messages)
    conversation.tool_orders.end_unless_of(snapshot)
    if conversation.tool_orders.pending is not None:
        order = order._replace(sections=conversation.tool_orders.pending.sections)

    running = conversation.running = RunningCompaction(conversation.id)
    end: Outcome = "aborted"
    try:
        start: Instant = yield Now()
        if not order.is_preview:
            yield Emit(_build_started_event(conversation.id, snapshot, order))
        # Read again only now: the event handlers may have taken time, in which the host wrote into its messages.
        attempt = new_attempt(conversation, call, snapshot, order)
        result = yield from attempt.run(start)
        end = _END.get(result.outcome, "failed")
    except ContextOverflowError:
        end = "failed"
        raise
    finally:
        if conversation.running is running:
            conversation.running = None
        running.done.set_result(end)
    return attempt, result


def new_attempt(conversation: Conversation[M], call: Call[M], snapshot: Snapshot[M], order: Order) -> Attempt[M]:
    """Return an attempt to compact that has not begun; the messages of the view are read again for changes in place."""
    if not (conversation.check_shown(snapshot) and snapshot.is_current):  # a list that grew may be edited too
        snapshot = learn_and_look(conversation, call).freeze(call.messages)
    return Attempt(conversation, call, snapshot, order)


def _report_unchanged(
    conversation: Conversation[M], snapshot: Snapshot[M], outcome: CompactionOutcome, order: Order
) -> CompactionResult[M]:
    record = snapshot.record
    is_new = outcome is CompactionOutcome.COMPACTED and record is not None
    return CompactionResult(
        messages=snapshot.to_store if order.is_preview else conversation.remember_sent(snapshot).to_store,
        record=record,
        outcome=outcome,
        reason=CompactionReason.MANUAL,
        tokens_before=record.tokens_before if record and is_new else snapshot.tokens,
        tokens_after=snapshot.tokens,
    )


def wait_for_others(conversation: Conversation[M]) -> Flow[Outcome | None]:
    """Wait for the compactions under way, one after the other; return how the last one ended, or None if there was none.

    Raises:
        ConfigurationError: it waits for the function of the host that calls this.
    """
    end: Outcome | None = None
    while (running := conversation.running) is not None:
        end = yield Wait(running)
        if end == "asking":
            raise ConfigurationError(
                "a function that a compaction asks (carry, before_compact) cannot compact the same session: answer with "
                "Advice(veto=...), and call compact() when the compaction has ended"
            )
        if not running.done.done():  # the caller gave up, or it does not end: go on without it
            break
    return end


def _build_started_event(session_id: str, snapshot: Snapshot[M], order: Order) -> CompactionStarted:
    budget = snapshot.budget
    return CompactionStarted(
        session_id=session_id,
        reason=order.reason,
        why=order.due.reason if order.due else "",
        tokens_before=snapshot.tokens,
        messages_before=snapshot.message_count,
        trigger_tokens=budget.trigger if budget else None,
        context_window=budget.window if budget else None,
    )
