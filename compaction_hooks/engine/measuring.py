"""Taking a snapshot: the size of the view is counted as far as the provider counted it, and estimated beyond."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

from compaction_hooks.engine.call import Call, budget_for
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.learning import find_calibration, learn_from_embedded_usage
from compaction_hooks.engine.sizes import UsageBaseline
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.foreign import describe_error
from compaction_hooks.history import History
from compaction_hooks.messages import M, can
from compaction_hooks.native import Issuer
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.view.head import NativeStart
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.reasoning import NOT_STALE, spare_open_turn
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot, ViewKey


def take_snapshot(conversation: Conversation[M], call: Call[M]) -> Snapshot[M]:
    """Read a call's list, and measure the view made with the active record.

    A broken history is repaired first if the settings say so, so that the repairs are measured too.
    """
    settings, shared = call.settings, call.shared
    model = call.model or shared.model
    is_mended = settings.repair if call.repair is None else call.repair
    messages = conversation.repair(call.messages, model) if is_mended else call.messages
    messages, history, record = conversation.read(messages)
    system, tools, has_changed = _measure_fixed(conversation, call)
    conversation.reasoning.compare_list(history, is_other_prefix=has_changed)

    issuer = _find_issuer(conversation, call, model)
    is_bound = conversation.reasoning.binds(model, conversation.format, settings.sealed_reasoning)
    projection = _project(conversation, settings, history, record, model, issuer, is_bound=is_bound)
    is_changed = is_mended or not projection.is_identity or history.has_summary

    key = _name_view(history, record, projection, model, system + tools)
    budget = budget_for(conversation, call)
    if budget is None:
        shared.windows.warn_once(model)
    # Before the size is taken: an answer in the list may carry the count of this very view.
    learn_from_embedded_usage(conversation, shared, history, key, _oldest_run(history, record, key.start), budget)
    calibration = find_calibration(conversation, shared, model)
    counted = conversation.sizes.baseline_of(key)

    return Snapshot(
        messages=messages,
        history=history,
        record=record,
        projection=projection,
        key=key,
        tokens=measure_view(calibration, key, counted),
        most_tokens=measure_view(calibration, key, counted, least_ratio=1.0),
        budget=budget,
        cached_tokens=counted.cached_tokens if counted is not None else None,
        seconds_since_last_call=call.seconds_since_last_call,
        format=conversation.format,
        estimator=conversation.estimator,
        ratio=calibration.ratio,
        overhead_tokens=calibration.overhead_tokens,
        fixed_tokens=system + tools,
        tools_tokens=tools,
        user_pins=dict(conversation.records.user_pins),
        binds_reasoning=is_bound,
        has_recall=conversation.has_recall,
        issuer=issuer,
        merges_user_messages=settings.merge_user_messages or (is_changed and conversation.needs_merging()),
    )


def _project(
    conversation: Conversation[M],
    settings: CompactionSettings,
    history: History[M],
    record: CompactionRecord | None,
    model: str | None,
    issuer: Issuer | None,
    *,
    is_bound: bool,
) -> Projection[M]:
    """Apply the active record, as a request to this model shows it.

    Args:
        is_bound: Whether the view leaves out stale reasoning.
    """
    start = conversation.find_native_start(history, model)
    large = conversation.find_large(history, record, settings)
    if not is_bound:
        return conversation.update_projection(history, record, NOT_STALE, issuer, start, large)
    shown = record.as_shown_to(issuer, history.run_count) if record else None
    stale = spare_open_turn(conversation.reasoning.stale_runs(history, shown), history, model)
    projection = conversation.update_projection(history, record, stale, issuer, start, large)
    if projection.unpinned_runs.end <= stale.end:
        return projection
    conversation.reasoning.add_unpinned(shown, projection.unpinned_runs)
    stale = spare_open_turn(conversation.reasoning.stale_runs(history, shown), history, model)
    return conversation.update_projection(history, record, stale, issuer, start, large)


def _name_view(
    history: History[M], record: CompactionRecord | None, projection: Projection[M], model: str | None, fixed: int
) -> ViewKey:
    """Return the identity of a view.

    Args:
        fixed: The estimate of the system prompt and the tools that are not in the list, in tokens.
    """
    return ViewKey(
        log=history.log,
        piece_count=history.piece_count,
        record_id=record.id if record else None,
        estimated=projection.tokens(history) + fixed,
        model=model,
        stale=projection.stale,
        has_native=projection.native is not None,
        start=projection.start,
    )


def _oldest_run(history: History[Any], record: CompactionRecord | None, start: NativeStart | None) -> int:
    """Return the first run whose answer may carry a count of the present view; earlier ones counted other views."""
    oldest = record.seen_runs if record else history.base
    if start is not None and start.is_newer(history, record):
        return max(oldest, history.run_of(start.piece) + 1)
    return oldest


def _find_issuer(conversation: Conversation[M], call: Call[M], model: str | None) -> Issuer | None:
    """Return the API and the model that read the view, if they compact by themselves and the messages can carry their items."""
    if call.issuer is None or model is None or not can(conversation.format, "native"):
        return None
    return call.issuer._replace(model=model)


def measure_view(
    calibration: Calibration, key: ViewKey, counted: UsageBaseline | None, least_ratio: float = 0.0
) -> int:
    """Return the size of a view in tokens of the model: counted up to the baseline, estimated beyond with `least_ratio` or more."""
    if counted is None:
        return calibration.predict(key.estimated)
    later = calibration._replace(ratio=max(calibration.ratio, least_ratio))
    return counted.input_tokens + max(0, later.predict_growth(key.estimated - counted.key.estimated))


def _measure_fixed(conversation: Conversation[M], call: Call[M]) -> tuple[int, int, bool]:
    """Return the estimates of a system prompt and of tools outside the list, and whether one of them is another than before.

    The estimates are cached until a call brings another prompt or other tools.
    """
    known, sizes, has_changed = conversation.sizes.fixed, [0, 0], False
    for place, value in enumerate((call.system, call.tools)):
        old, tokens = known[place]
        if value and value != old:
            has_changed |= bool(old)
            tokens = conversation.estimator.estimate_tokens(_as_text(value))
            known[place] = copy(value), tokens  # hosts add tools in place
        sizes[place] = tokens if value else 0
    return sizes[0], sizes[1], has_changed


def _as_text(value: object) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # odd keys, circular, nested too deeply
        raise ConfigurationError(f"`system` and `tools` must be text or JSON: {describe_error(error)}") from error
