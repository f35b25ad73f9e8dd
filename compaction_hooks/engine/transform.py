"""The view of one call: read what is new, ask the trigger, compact if it is due, and hand the view out.

1. A flow is a generator that yields effects to the async or the sync driver. Between two effects it runs under the lock of the
   conversation; while it waits for an answer, it holds no lock.
2. So after each effect the snapshot is taken anew: another call may have compacted, and the host may have changed its list.
3. Only one caller of a conversation compacts at a time; the others wait, and use its result.
4. A silent overflow is reset by the compaction that cures it, and by nothing else.
5. The order of the model's tool ends with the attempt that carries it out, unless that is aborted.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from compaction_hooks.engine.background import MOST_LATER_RATIO
from compaction_hooks.engine.call import Call, Order
from compaction_hooks.engine.compact import new_attempt, run_compaction
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.looking import learn, learn_and_look, look, report_missing_pins
from compaction_hooks.engine.persistence import flush, sync_store
from compaction_hooks.engine.pressure import PRESSURE_RATIO
from compaction_hooks.engine.result import CompactionOutcome
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.events import CompactionSkipped, ContextPressure
from compaction_hooks.messages import M
from compaction_hooks.runtime.effects import Begin, Emit, Flow, IsAborted, Outcome, RunningCompaction, Wait
from compaction_hooks.strategies.reduce_parts import view_chars
from compaction_hooks.tokens.budget import KEEP_RECENT_RATIO
from compaction_hooks.tokens.windows import unknown_window_error
from compaction_hooks.triggers import Due, RatioTrigger
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")

_LEFT_TO_SERVER = (CompactionReason.THRESHOLD, CompactionReason.TOOL)
"""The compactions that are not made while an option of the request makes the server compact."""


def transform(conversation: Conversation[M], call: Call[M]) -> Flow[LastSent[M]]:
    """Return the view to send; compact first when the threshold is passed or the last call overflowed silently."""
    is_fresh = yield from sync_store(conversation, before_paying=False)
    yield from report_missing_pins(conversation, call)

    may_ask = True
    given_up: list[RunningCompaction] = []
    # Each effect lets other callers run, and they may compact: after a wait, take a new snapshot and decide again.
    while True:
        snapshot, is_fresh = yield from _take_informed_snapshot(conversation, call, is_fresh=is_fresh)
        order = _find_order(conversation, snapshot, call)
        if order is None:
            snapshot = yield from _tell_pressure(conversation, call, snapshot)
            sent = yield from send_view(conversation, call, snapshot)
            yield from _write_ahead(conversation, call, sent.snapshot)
            return sent

        reason = order.reason
        if reason in _LEFT_TO_SERVER and call.server_compaction:
            yield from _leave_to_server(conversation, snapshot, reason, call.server_compaction)
            return (yield from send_view(conversation, call, learn_and_look(conversation, call)))

        if reason is CompactionReason.THRESHOLD and conversation.cooldown.is_vetoed(snapshot):
            logger.debug("session %s: the host's veto holds", conversation.id)
            return (yield from send_view(conversation, call, snapshot))

        is_aborted: bool = yield IsAborted()
        why = "aborted" if is_aborted else ""
        if not why and reason is CompactionReason.THRESHOLD:
            why = conversation.cooldown.reason_to_wait(snapshot)
        if why:
            yield from _skip(conversation, snapshot, reason, why)
            return (yield from send_view(conversation, call, learn_and_look(conversation, call)))

        draft = conversation.background.running_under(snapshot) if reason is CompactionReason.THRESHOLD else None
        running = next((each for each in (conversation.running, draft) if each and each not in given_up), None)
        if running is not None:
            end: Outcome = yield Wait(running)
            if end == "asking":
                return (yield from send_view(conversation, call, learn_and_look(conversation, call)))
            may_ask = may_ask and (end != "failed" or running is draft)
            if not running.done.done():
                given_up.append(running)
            continue

        # Only now, since most calls do not compact: another worker may have paid for this summary already.
        if not is_fresh:
            is_fresh = yield from sync_store(conversation, before_paying=True)
            continue

        if reason is CompactionReason.THRESHOLD:
            order = order._replace(previewed=conversation.background.find(snapshot))
        order = _with_tool_order(conversation, order._replace(may_ask=may_ask))
        attempt, result = yield from run_compaction(conversation, call, order)
        conversation.cooldown.has_overflowed = False
        if result.outcome is not CompactionOutcome.ABORTED:
            conversation.tool_orders.end()
        return attempt.last_sent or (yield from send_view(conversation, call, learn_and_look(conversation, call)))


def _write_ahead(conversation: Conversation[M], call: Call[M], snapshot: Snapshot[M]) -> Flow[None]:
    """Begin a summary in the background if the threshold will want one by the time it is ready (`engine/background.py`)."""
    background, budget = conversation.background, snapshot.budget
    background.note_call(snapshot)
    is_ours = call.settings.auto_compact and not call.server_compaction and conversation.running is None
    if budget is None or not is_ours or not background.may_begin(snapshot):
        return

    ahead = background.look_ahead(snapshot)
    order = _find_threshold_order(conversation, ahead, call)
    cooldown = conversation.cooldown
    if order is None or cooldown.is_vetoed(snapshot) or cooldown.reason_to_wait(ahead):
        return
    # What comes until the threshold is kept then: so much less is kept now, and the same is done as at the threshold.
    keep = min(order.keep_tokens(snapshot, budget), budget.target - budget.summary)
    later = max(0, budget.trigger - snapshot.tokens)
    if later > keep * MOST_LATER_RATIO:
        return

    protected = max(0, budget.protect_results - later)
    now = replace(budget.with_target(budget.target - later), protect_results=protected)
    snapshot = snapshot._replace(reading=snapshot.reading._replace(budget=now)).freeze(call.messages)
    order = order._replace(keep=keep - later, due=None)
    attempt = new_attempt(conversation, call, snapshot, order)
    draft = background.begin(conversation.id, snapshot)
    is_begun: bool = yield Begin(background.write(draft, attempt.write_draft), draft.running)
    logger.debug("session %s: a summary is written in the background", conversation.id)
    if not is_begun:
        background.is_on = False
        background.discard()
        logger.warning(
            "session %s: background=True waits for summaries nevertheless: only the summarizer= of the controller outlives a call",
            conversation.id,
        )


def settle(conversation: Conversation[M], call: Call[M]) -> Flow[None]:
    """Wait for the summary under way in the background, and make it active and store it if the conversation has a store."""
    background = conversation.background
    if not conversation.queue.has_store:
        background.discard()
        return
    if (running := background.running) is not None:
        yield Wait(running)
    if background.running is not None:
        logger.warning(
            "session %s: a summary in the background was not waited for: its loop stands still", conversation.id
        )
    else:
        snapshot, sent = learn_and_look(conversation, call).freeze(call.messages), conversation.newest_view
        order = Order(CompactionReason.THRESHOLD, previewed=background.find(snapshot))
        if new_attempt(conversation, call, snapshot, order).adopts:
            yield from run_compaction(conversation, call, order)
            conversation.newest_view = sent  # none was sent
    yield from flush(conversation)


def send_view(conversation: Conversation[M], call: Call[M], snapshot: Snapshot[M]) -> Flow[LastSent[M]]:
    """Return the view to send of a snapshot just taken, and store the notes about it."""
    while True:
        sent = conversation.remember_sent(snapshot)
        if not conversation.queue.unwritten:
            return sent
        snapshot = snapshot.freeze(call.messages)
        yield from flush(conversation)
        if snapshot.is_current:
            return sent
        snapshot = learn_and_look(conversation, call)


def _tell_pressure(conversation: Conversation[M], call: Call[M], snapshot: Snapshot[M]) -> Flow[Snapshot[M]]:
    """Tell the host, and the model if the host wants it, that the context is nearly full; return the snapshot to send."""
    budget, pressure = snapshot.budget, conversation.pressure
    pressure.go_back(snapshot.history)
    is_ours = call.settings.auto_compact and not call.server_compaction
    if budget is None or not is_ours or snapshot.tokens <= budget.trigger * PRESSURE_RATIO:
        return snapshot

    is_new = pressure.begin_filling(snapshot)
    text = call.shared.notice if conversation.notice is None else conversation.notice
    is_placed = pressure.place(snapshot, text)
    if is_new:
        yield Emit(
            ContextPressure(
                session_id=conversation.id,
                tokens=snapshot.tokens,
                trigger_tokens=budget.trigger,
                context_window=budget.window,
                is_model_told=is_placed,
            )
        )
    return learn_and_look(conversation, call) if is_new or is_placed else snapshot


def _take_informed_snapshot(
    conversation: Conversation[M], call: Call[M], *, is_fresh: bool
) -> Flow[tuple[Snapshot[M], bool]]:
    """Return a snapshot that lacks no note of this list, and whether the records were loaded for this call.

    Args:
        is_fresh: Whether they were before.
    """
    while True:
        reading = learn(conversation, call, is_request=True)
        needs_notes = (
            reading.binds_reasoning
            and not is_fresh
            and conversation.reasoning.has_answer_of_another(reading.history, conversation.sent_runs)
        )
        if not needs_notes:
            return look(conversation, call, reading), is_fresh
        is_fresh = yield from sync_store(conversation, before_paying=True)


def _find_order(conversation: Conversation[M], snapshot: Snapshot[M], call: Call[M]) -> Order | None:
    """Return the order of the compaction that is due, or None."""
    settings = call.settings
    if conversation.cooldown.has_overflowed and settings.compact_on_overflow:
        return Order(CompactionReason.OVERFLOW)
    conversation.tool_orders.end_unless_of(snapshot)
    if conversation.tool_orders.pending is not None:
        return Order(CompactionReason.TOOL)
    order = _find_threshold_order(conversation, snapshot, call) if settings.auto_compact else None
    if snapshot.budget is not None and settings.auto_compact:
        sizes, answer = (snapshot.tokens, snapshot.budget.trigger), order and order.due and order.due.reason
        logger.debug("session %s: %d tokens for a trigger of %d: %s", conversation.id, *sizes, answer or "not due")
    if order is not None:
        return order
    if _exceeds_byte_limit(conversation, snapshot):
        return Order(CompactionReason.OVERFLOW, only_media=True)
    return None


def _find_threshold_order(conversation: Conversation[M], snapshot: Snapshot[M], call: Call[M]) -> Order | None:
    """Return the order of the trigger, or that of the cap of large windows; None if neither is due."""
    due, budget = _find_due(conversation, snapshot, call), snapshot.budget
    if due is not None:
        return Order(CompactionReason.THRESHOLD, due=due)
    if budget is None or not budget.is_capped or snapshot.tokens <= budget.trigger:
        return None

    due = Due(f"above {budget.trigger:,} tokens, the default threshold of larger windows")
    if snapshot.turn_tokens > budget.trigger:
        return Order(CompactionReason.THRESHOLD, due=due, spares="step")
    if conversation.cooldown.is_spared(snapshot):
        return None
    return Order(CompactionReason.THRESHOLD, due=due, spares="turn")


def _find_due(conversation: Conversation[M], snapshot: Snapshot[M], call: Call[M]) -> Due | None:
    """Return the answer of the trigger, or None."""
    if snapshot.budget is None:
        _check_trigger(conversation, call)
        return None

    due = call.settings.effective_trigger.due(snapshot)
    # A trigger decides when, not whether the answer has room.
    if due is None and snapshot.exceeds_input_limit:
        due = Due(f"above {snapshot.input_limit:,} tokens")
    return due


def _check_trigger(conversation: Conversation[M], call: Call[M]) -> None:
    """Refuse a trigger that is a part of the window, unless an earlier call had one: a run must not end with a fallback model.

    Raises:
        ConfigurationError: no window is known.
    """
    last = conversation.last_sent
    if call.server_compaction or (last is not None and last.snapshot.budget is not None):
        return
    for written, part in call.settings.triggers.items():
        if isinstance(part, RatioTrigger):
            raise unknown_window_error(written, call.model or call.shared.model)


def _with_tool_order(conversation: Conversation[M], order: Order) -> Order:
    """Return an order with the focus of the model's tool, if the model gave an order too."""
    asked = conversation.tool_orders.pending
    if asked is None:
        return order
    order = order._replace(focus=asked.focus)
    if order.reason is not CompactionReason.TOOL:
        return order
    return order._replace(keep_ratio=KEEP_RECENT_RATIO, needs_summary=True)


def _leave_to_server(
    conversation: Conversation[M], snapshot: Snapshot[M], reason: CompactionReason, option: str
) -> Flow[None]:
    """Skip a compaction, because an option of the request makes the server compact; report it once, and each order."""
    is_new = conversation.server_compaction != option or conversation.tool_orders.pending is not None
    conversation.server_compaction = option
    conversation.tool_orders.end()
    if is_new:
        yield from _skip(conversation, snapshot, reason, f"left to the server ({option})")


def _exceeds_byte_limit(conversation: Conversation[M], snapshot: Snapshot[M]) -> bool:
    """Whether the provider would refuse a view for its bytes, as far as an earlier refusal tells."""
    most = conversation.cooldown.max_chars
    if most is None:
        return False

    return view_chars(snapshot) > most


def _skip(conversation: Conversation[M], snapshot: Snapshot[M], reason: CompactionReason, why: str) -> Flow[None]:
    yield Emit(CompactionSkipped(session_id=conversation.id, reason=reason, why=why, tokens=snapshot.tokens))
