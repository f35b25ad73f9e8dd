"""From a call to a snapshot: `learn` reads the list and learns what it tells, `look` says what is then known.

1. `learn` is the only writer on this way. It changes the history, the active record and the newest view, what is known of the
   system prompt and the tools, the runs with stale reasoning, notes of new sealed summaries, and the calibration. It ends a notice.
2. `look` changes nothing: two looks at one reading are equal.
3. A broken history is repaired first if the settings say so, so that the repairs are measured too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

from compaction_hooks.dress import Request, dress
from compaction_hooks.dress.show_items import place_carried
from compaction_hooks.engine.call import Call, budget_for
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.measuring import find_calibration, learn_from_embedded_usage, measure_view
from compaction_hooks.engine.sizes import FixedPart
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import PinMissing
from compaction_hooks.foreign import are_equal, copy_value, describe_error
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.messages import Format, M, Message, can
from compaction_hooks.native import Issuer
from compaction_hooks.runtime.effects import Emit, Flow
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.validity import needs_merging
from compaction_hooks.view.reasoning import find_unread
from compaction_hooks.view.record import CompactionRecord, StaleRuns
from compaction_hooks.view.references import View
from compaction_hooks.view.snapshot import CallFrame, Reading, Snapshot, ViewKey

logger = logging.getLogger("compaction_hooks")


def learn_and_look(conversation: Conversation[M], call: Call[M]) -> Snapshot[M]:
    """Return the snapshot of a call's list, after learning what the list tells."""
    return look(conversation, call, learn(conversation, call))


def learn(conversation: Conversation[M], call: Call[M], *, is_request: bool = False) -> Reading[M]:
    """Read a call's list, make the view of the active record, and learn from the usage in the answers.

    A list that is only looked at may be a part of the host's: unless it is the first one, it teaches nothing about reasoning.

    Args:
        is_request: Whether the view is for the host's next request: the next answer is to it, and to no view before.
    """
    known = conversation.reasoning
    conversation.reasoning = copy(known) if call.is_look and known.history is not None else known
    try:
        return _learn(conversation, call, is_request=is_request)
    finally:
        conversation.reasoning = known


def _learn(conversation: Conversation[M], call: Call[M], *, is_request: bool) -> Reading[M]:
    settings, shared = call.settings, call.shared
    model = call.model or shared.model
    is_mended = settings.repair if call.repair is None else call.repair
    messages = conversation.repair(call.messages, model) if is_mended else call.messages

    history, record = conversation.read(messages)
    system, tools, has_changed = _measure_fixed(conversation, call)
    conversation.reasoning.compare_list(history, is_other_prefix=has_changed)

    issuer = _find_issuer(conversation, call, model)
    shown = record.as_shown_to(issuer, history.run_count) if record else None
    if is_request:
        conversation.reasoning.expect_answer(history, shown)
    is_bound = conversation.reasoning.binds(model, conversation.format, settings.sealed_reasoning)
    if is_bound and not call.is_look and conversation.reasoning.has_answer_of_another(history, conversation.sent_runs):
        conversation.end_notice()
    view = _make_view(conversation, settings, history, record, shown, model, issuer, is_bound=is_bound)

    budget = budget_for(call)
    if budget is None:
        shared.windows.warn_once(model)

    reading = Reading(
        messages=messages,
        history=history,
        record=record,
        shown_record=shown,
        view=view,
        key=_name_view(history, record, view, model, system + tools),
        budget=budget,
        system_tokens=system,
        tools_tokens=tools,
        issuer=issuer,
        binds_reasoning=is_bound,
        is_changed=is_mended or not view.is_identity or history.has_summary,
    )
    # Before the size is taken: an answer in the list may carry the count of this very view.
    learn_from_embedded_usage(conversation, call, reading, _oldest_run(reading))
    return reading


def look(conversation: Conversation[M], call: Call[M], reading: Reading[M]) -> Snapshot[M]:
    """Return the snapshot of a list just read: its view, the sizes, the budget."""
    key = reading.key
    calibration = find_calibration(conversation, call.shared, key.model)
    counted = conversation.sizes.baseline_of(key)

    return Snapshot(
        reading=reading,
        tokens=measure_view(calibration, key, counted),
        most_tokens=measure_view(calibration, key, counted, least_ratio=1.0),
        format=conversation.format,
        estimator=conversation.estimator,
        calibration=calibration,
        cached_tokens=counted.cached_tokens if counted is not None else None,
        seconds_since_last_call=call.seconds_since_last_call,
        user_pins=dict(conversation.records.user_pins),
        has_recall=conversation.has_recall,
        dress=partial(
            _dress_new,
            reading,
            conversation.format,
            conversation.estimator.estimate_message_tokens,
            conversation.records.list_ancestors,
        ),
        joins_rows=call.settings.merge_user_messages or (reading.is_changed and needs_merging(conversation.format)),
        may_be_shortened=call.may_be_shortened,
        call_frame=CallFrame(call.system, _copied(call.tools), _copied(call.request)),
    )


def _copied(value: Any) -> Any:
    """Return a copy of a plain list or dict, which its host may change before the next call."""
    return copy(value) if type(value) in (list, dict) else value


def _dress_new(
    reading: Reading[M],
    format: Format[M],
    estimate: Callable[[Message], int],
    list_ancestors: Callable[[CompactionRecord], Sequence[CompactionRecord]],
    view: View[M],
    record: CompactionRecord,
    stale: StaleRuns,
) -> View[M]:
    """Return the view of a record made now, as the request of a reading shows it."""
    unread = reading.find_unread(format.provider)
    request = Request(
        reading.history,
        record,
        format,
        estimate,
        reading.view.start,
        stale,
        unread,
        reading.issuer,
        behind=place_carried(reading.history, record, reading.issuer, list_ancestors),
        earlier=reading.view,
    )
    return dress(view, request)


def _make_view(
    conversation: Conversation[M],
    settings: CompactionSettings,
    history: History[M],
    record: CompactionRecord | None,
    shown: CompactionRecord | None,
    model: str | None,
    issuer: Issuer | None,
    *,
    is_bound: bool,
) -> View[M]:
    """Make the view of the active record, as a request to this model shows it.

    Args:
        shown: The record as the record of this very view.
        is_bound: Whether the view leaves out stale reasoning.
    """
    format, views = conversation.format, conversation.views
    start = conversation.find_native_start(history, model)
    large = conversation.find_large(history, record, settings)
    estimate = conversation.estimator.estimate_message_tokens
    carried = place_carried(history, record, issuer, conversation.records.list_ancestors)
    behind = (*carried, *conversation.pressure.find(history, record))
    if not is_bound:
        seen_runs = record.seen_runs if record is not None else 0
        unread = find_unread(history, min(seen_runs, history.run_count), model, format.provider)
        request = Request(history, record, format, estimate, start, unread=unread, issuer=issuer, behind=behind)
        return views.view_for(request, large)

    stale = conversation.reasoning.runs_to_leave_out(history, shown, model)
    request = Request(history, record, format, estimate, start, stale, issuer=issuer, behind=behind)
    view = views.view_for(request, large)
    if views.unpinned.end <= request.stale.end:
        return view

    # Only the view tells which older requests it shortens or leaves out: the answers to these are stale too.
    conversation.reasoning.add_unpinned(views.unpinned)
    stale = conversation.reasoning.runs_to_leave_out(history, shown, model)
    return views.view_for(request._replace(stale=stale), large)


def _name_view(
    history: History[M], record: CompactionRecord | None, view: View[M], model: str | None, fixed: int
) -> ViewKey:
    """Return the identity of a view.

    Args:
        fixed: The estimate of the system prompt and the tools that are not in the list, in tokens.
    """
    return ViewKey(
        log=history.log,
        piece_count=history.piece_count,
        record_id=record.id if record else None,
        estimated=view.tokens(history) + fixed,
        model=model,
        dressed=view.dressed,
    )


def _oldest_run(reading: Reading[Any]) -> int:
    """Return the first run whose answer may carry a count of the present view; earlier ones counted other views."""
    history, record, start = reading.history, reading.record, reading.view.start
    oldest = record.seen_runs if record else history.runs_before_list
    if start is not None and start.is_newer:
        return max(oldest, history.run_of(start.piece) + 1)
    return oldest


def _find_issuer(conversation: Conversation[M], call: Call[M], model: str | None) -> Issuer | None:
    """Return the API and the model that read the view, if they compact by themselves and the messages can carry their items."""
    if call.issuer is None or model is None or not can(conversation.format, "native"):
        return None
    return call.issuer._replace(model=model)


def _measure_fixed(conversation: Conversation[M], call: Call[M]) -> tuple[int, int, bool]:
    """Return the estimates of a system prompt and of tools outside the list, and whether one of them is another than before.

    The estimates are cached until a call brings another prompt or other tools. A value is compared with its copy first: its JSON
    text takes ten times as long.
    """
    known, sizes, has_changed = conversation.sizes.fixed, [0, 0], False

    for place, value in enumerate((call.system, call.tools)):
        if value and not are_equal(value, known[place].copy):
            text = _as_text(value)
            digest = text_digest(text)
            if digest != known[place].digest:
                has_changed |= known[place].digest != ""  # the first one is no change
                known[place] = FixedPart(copy_value(value), digest, conversation.estimator.estimate_tokens(text))
        sizes[place] = known[place].tokens if value else 0

    return sizes[0], sizes[1], has_changed


def _as_text(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # odd keys, circular, nested too deeply
        raise ConfigurationError(f"`system` and `tools` must be text or JSON: {describe_error(error)}") from error


def report_missing_pins(conversation: Conversation[M], call: Call[M]) -> Flow[None]:
    """Report messages that were pinned before a list had them, if this list does not have them either."""
    if not conversation.records.unseen_pins:
        return
    history = learn(conversation, call).history
    digests = {message_digest(history.piece(index).message) for index in range(history.piece_count)}
    unseen = conversation.records.unseen_pins
    conversation.records.unseen_pins = []
    count = sum(not digests.issuperset(pinned) for pinned in unseen)
    if count:
        logger.warning("session %s: the list has not %d of the messages that were pinned", conversation.id, count)
        yield Emit(PinMissing(session_id=conversation.id, count=count))
