"""The size of the view, and what the provider's counts and errors teach.

1. A view is counted as far as the provider counted it, and estimated beyond.
2. `take_snapshot` reads the list and learns the counts in its answers; `report_usage` and the errors teach the rest.
3. A count that the view cannot have (a sum of calls, another model's) teaches nothing, and ends what such counts taught before; nor
   does that of a prompt which the server cut (`cut_prompts`).
4. A refusal teaches first the window that it names, then the size of documents that no count included, then the model's ratio.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator
from typing import Any

from compaction_hooks.engine.call import SMALLEST_WINDOW, Call, SharedState, budget_for
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.cut_prompts import is_believable
from compaction_hooks.engine.sizes import FixedPart, UsageBaseline
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import PinMissing
from compaction_hooks.foreign import are_equal, copy_value, describe_error
from compaction_hooks.formats.answers import context_tokens, is_cut_by_window, is_usable
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.messages import M, Media, Message, Usage, can
from compaction_hooks.native import Issuer
from compaction_hooks.overflow import OverflowInfo
from compaction_hooks.runtime.effects import Emit, Flow
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO, TARGET_RATIO, Budget
from compaction_hooks.tokens.calibration import MAXIMUM_RATIO, UNTAUGHT, Calibration
from compaction_hooks.tokens.estimator import OTHER_MEDIA_TOKENS, find_media
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.validity import needs_merging
from compaction_hooks.view.head import NativeStart
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.reasoning import ALL_READ, NOT_STALE, find_unread, spare_open_turn
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot, ViewKey

logger = logging.getLogger("compaction_hooks")


def take_snapshot(conversation: Conversation[M], call: Call[M]) -> Snapshot[M]:
    """Read a call's list, and measure the view made with the active record.

    A broken history is repaired first if the settings say so, so that the repairs are measured too.
    """
    settings, shared = call.settings, call.shared
    model = call.model or shared.model
    is_mended = settings.repair if call.repair is None else call.repair
    messages = conversation.repair(call.messages, model) if is_mended else call.messages
    history, record = conversation.read(messages)
    system, tools, has_changed = _measure_fixed(conversation, call)
    conversation.reasoning.compare_list(history, is_other_prefix=has_changed)

    issuer = _find_issuer(conversation, call, model)
    is_bound = conversation.reasoning.binds(model, conversation.format, settings.sealed_reasoning)
    projection = _project(conversation, settings, history, record, model, issuer, is_bound=is_bound)
    is_changed = is_mended or not projection.is_identity or history.has_summary

    key = _name_view(history, record, projection, model, system + tools)
    budget = budget_for(call)
    if budget is None:
        shared.windows.warn_once(model)
    # Before the size is taken: an answer in the list may carry the count of this very view.
    oldest_run = _oldest_run(history, record, key.start)
    learn_from_embedded_usage(conversation, call, history, projection, key, oldest_run, budget)
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
        merges_user_messages=settings.merge_user_messages or (is_changed and needs_merging(conversation.format)),
        may_be_shortened=call.may_be_shortened,
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
        seen_runs = record.seen_runs if record is not None else 0
        unread = find_unread(history, min(seen_runs, history.run_count), model, conversation.format.provider)
        return conversation.update_projection(history, record, NOT_STALE, issuer, start, large, unread)

    shown = record.as_shown_to(issuer, history.run_count) if record else None
    stale = spare_open_turn(conversation.reasoning.stale_runs(history, shown), history, model)
    projection = conversation.update_projection(history, record, stale, issuer, start, large, ALL_READ)
    if projection.unpinned_runs.end <= stale.end:
        return projection

    conversation.reasoning.add_unpinned(projection.unpinned_runs)
    stale = spare_open_turn(conversation.reasoning.stale_runs(history, shown), history, model)
    return conversation.update_projection(history, record, stale, issuer, start, large, ALL_READ)


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
    oldest = record.seen_runs if record else history.runs_before_list
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

    The estimates are cached until a call brings another prompt or other tools. A value is compared with its copy first: its JSON
    text takes ten times as long.
    """
    known, sizes, has_changed = conversation.sizes.fixed, [0, 0], False
    for place, value in enumerate((call.system, call.tools)):
        if value and not are_equal(value, known[place].copy):
            text = _as_text(value)
            digest = text_digest(text)
            if digest != known[place].digest:
                has_changed |= bool(known[place].digest)
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
    history = take_snapshot(conversation, call).history
    digests = {message_digest(history.piece(index).message) for index in range(history.piece_count)}
    unseen = conversation.records.unseen_pins
    conversation.records.unseen_pins = []
    count = sum(not digests.issuperset(pinned) for pinned in unseen)
    if count:
        logger.warning("session %s: the list has not %d of the messages that were pinned", conversation.id, count)
        yield Emit(PinMissing(session_id=conversation.id, count=count))


# -- learning


def report_usage(
    conversation: Conversation[M], shared: SharedState, usage: Usage, sent: Snapshot[M] | None, model: str | None
) -> None:
    """Learn from the provider's count of a view that was sent.

    Ignore the usage of another model's call, and empty or nonsense usage (all zero, negative). If the count is impossible for this
    view, as a sum over all calls is, discard what earlier reports taught, which may have been such sums too.
    """
    if sent is None or not is_usable(usage):
        return
    if model is not None and sent.model is not None and not same_model(model, sent.model):
        return
    if is_impossible(usage, sent.key.estimated, sent.budget):
        conversation.sizes.baseline = conversation.sizes.last_checked = None
        conversation.sizes.learn(sent.key.model, None)
        return

    counted = UsageBaseline(sent.key, usage.input_tokens, usage.cache_read_tokens)
    first_kept = sent.history.first_piece(sent.projection.tail_start)
    if not is_believable(
        conversation, shared, sent.history, first_kept, counted, may_be_shortened=sent.may_be_shortened
    ):
        return
    _observe(conversation, shared, counted)
    # Only a compaction resets this: the answer itself may have reported an overflow before its usage came. If the view was replaced
    # meanwhile, its overflow is cured already.
    is_over = sent.budget is not None and usage.input_tokens > sent.budget.window
    conversation.cooldown.has_overflowed |= is_over and sent.key.record_id == conversation.records.active_id


def _make_test(
    conversation: Conversation[M],
    shared: SharedState,
    history: History[M],
    projection: Projection[M],
    *,
    may_be_shortened: bool,
) -> Callable[[UsageBaseline, Iterable[UsageBaseline]], bool]:
    """Return the test whether a count, next to earlier ones, may be that of its whole view."""
    first_kept = history.first_piece(projection.tail_start)
    return partial(is_believable, conversation, shared, history, first_kept, may_be_shortened=may_be_shortened)


def is_impossible(usage: Usage, estimated: int, budget: Budget | None) -> bool:
    """Whether this usage cannot be the count of a view that the provider accepted.

    A hidden prefix explains a count up to the window, and a heavy tokenizer a count in proportion to the view.
    """
    return budget is not None and usage.input_tokens > budget.window + MAXIMUM_RATIO * estimated


def learn_from_answer(shared: SharedState, model: str | None, answer: Message, budget: Budget | None) -> None:
    """Correct a window that was believed too large, after an answer that filled it."""
    if answer.stop_reason != "window" or answer.usage is None or not is_usable(answer.usage):
        return
    if model is not None and answer.model is not None and not same_model(answer.model, model):
        return
    filled = max(context_tokens(answer.usage), SMALLEST_WINDOW)
    if budget is None or filled < budget.window:
        shared.windows.learn(model, filled)


def learn_from_overflow(
    conversation: Conversation[M],
    shared: SharedState,
    call: Call[M],
    snapshot: Snapshot[M],
    sent: Snapshot[M] | None,
    info: OverflowInfo,
) -> None:
    """Correct the window, and the estimate of the rejected view: the view is larger than the window.

    A document or a sound may have any size, and no message tells it. If the view has documents that no count included, they get the
    excess over the estimate, in equal shares.

    Args:
        sent: The view that was rejected; None if this conversation handed out none.
    """
    model = call.model
    if info.limit_tokens is not None:
        shared.windows.learn(model, max(info.limit_tokens, SMALLEST_WINDOW))
    if info.output_tokens is not None:
        # The host asks for that much every time: it must stay free, or the next request overflows as well.
        shared.requested_outputs[model or shared.model] = info.output_tokens

    budget = budget_for(call)
    if sent is None or budget is None:
        return
    actual = _read_input_tokens(info) or budget.window + 1
    excess = actual - sent.tokens
    if excess <= 0:
        return

    documents = _find_unseen_documents(conversation, snapshot, sent)
    if documents and excess > OTHER_MEDIA_TOKENS * len(documents):
        share = math.ceil(excess / snapshot.ratio / len(documents))
        conversation.learn_media((media, share) for media in documents)
    else:
        _observe(conversation, shared, UsageBaseline(sent.key, actual))


def _find_unseen_documents(conversation: Conversation[M], snapshot: Snapshot[M], sent: Snapshot[M]) -> list[Media]:
    """Return the documents and sounds in a rejected view, without those that the provider has counted before."""
    history = snapshot.history
    projection = snapshot.projection
    baseline = conversation.sizes.baseline_of(sent.key)
    counted = baseline.key.piece_count if baseline is not None else 0
    kept = (*projection.pinned, *range(projection.cut, history.piece_count))

    found: list[Media] = []
    for index in kept:
        piece = history.piece(index)
        shown = projection.rewritten.get(piece.host)
        message = piece.message if shown is None else shown.pieces[piece.number]
        if index >= counted:
            found += [media for part in message.parts for media in find_media(part)]
    return [media for media in found if not media.media_type.startswith("image")]


def _read_input_tokens(info: OverflowInfo) -> int | None:
    """Return the input size that an error names, in tokens, without the room for the answer."""
    if info.input_tokens is not None or info.actual_tokens is None:
        return info.input_tokens
    return info.actual_tokens - (info.output_tokens or 0)


def _observe(conversation: Conversation[M], shared: SharedState, baseline: UsageBaseline) -> None:
    """Make a count the baseline, and update the calibration of its model."""
    model = baseline.key.model
    estimated = baseline.key.estimated
    calibration = find_calibration(conversation, shared, model)
    previous = conversation.sizes.baseline_of(baseline.key)
    if previous is not None:
        calibration = calibration.observe_growth(
            estimated=estimated - previous.key.estimated, counted=baseline.input_tokens - previous.input_tokens
        )

    known = conversation.sizes.counts_of(model)
    observed = calibration.observe(estimated=estimated, counted=baseline.input_tokens)
    refusals = 0 if baseline.key.has_native else known.native_refusals  # it accepted them
    conversation.sizes.baseline = baseline
    conversation.sizes.models[model] = known._replace(calibration=observed, native_refusals=refusals)
    shared.calibrations[model] = observed.for_another_conversation()


def find_calibration(conversation: Conversation[M], shared: SharedState, model: str | None) -> Calibration:
    """Return the calibration of a model from this conversation and its records, else the ratio that other conversations learned."""
    learned = conversation.sizes.calibration_of(model)
    if learned is None and model is not None:  # perhaps under another name of the model
        own = conversation.sizes.models.items()
        aliases = (known.calibration for name, known in own if name is not None and same_model(name, model))
        learned = next(filter(None, aliases), None)
    return learned or shared.calibrations.get(model) or UNTAUGHT


def learn_from_embedded_usage(
    conversation: Conversation[M],
    call: Call[M],
    history: History[M],
    projection: Projection[M],
    key: ViewKey,
    oldest_run: int,
    budget: Budget | None,
) -> None:
    """Learn from the newest usage that an assistant message carries, if it measured the present view.

    An aborted, failed or empty call measured nothing.

    Args:
        oldest_run: A count made before this run measured a larger view than the present one.
    """
    last_answer = next(history.counted_answers(), None)
    if last_answer is None or last_answer <= _last_known_piece(conversation, key):
        return

    counts = _read_counts(history, key, oldest_run, budget, _last_known_piece(conversation, key))
    conversation.sizes.last_checked = key, last_answer
    newest = next(counts, None)
    if newest is None:
        return

    answer, counted = newest
    before = conversation.sizes.baseline_of(key)
    older = [count for _, count in counts] if before is None else [before]
    # Since `before` the view here only grew, so a count as small as after a compaction measured the view of another worker.
    most_ratio = 1 - MINIMUM_GAIN_RATIO if before is None else TARGET_RATIO
    first_kept = history.first_piece(projection.tail_start)
    is_whole = is_believable(
        conversation, call.shared, history, first_kept, counted, older, may_be_shortened=call.may_be_shortened
    )
    found = _choose_baseline(counted, older, most_ratio)
    # Of a server that cuts prompts, older counts are no better.
    if not is_whole and (found is counted or conversation.sizes.counts_of(key.model).cut_at is not None):
        return
    if found is not before:
        _observe(conversation, call.shared, found)

    # Only a compaction resets this, as for reported usage.
    if found is counted:
        window = budget.window if budget is not None else None
        is_over = window is not None and found.input_tokens > window
        # The call that got this answer may have asked for less than the present one: its limit is unknown.
        is_cut = is_cut_by_window(answer, requested=None, window=window)
        conversation.cooldown.has_overflowed |= is_over or is_cut
        learn_from_answer(call.shared, key.model, answer, budget)


def _read_counts(
    history: History[M], key: ViewKey, oldest_run: int, budget: Budget | None, known_until: int
) -> Iterator[tuple[Message, UsageBaseline]]:
    """Yield the answers with a usable count, by this model, of the view before them, newest first.

    They go back to the last known piece and the oldest run of the view.
    """
    for index in history.counted_answers():
        message = history.piece(index).message
        # Reasoning alone before the first run belongs to that run, once there is one.
        if index <= known_until or max(history.run_of(index), history.runs_before_list) < oldest_run:
            return

        usage = message.usage
        if usage is None or not is_usable(usage, message.stop_reason):
            continue
        if key.model is not None and message.model is not None and not same_model(key.model, message.model):
            continue
        sent = key._replace(piece_count=index, estimated=key.estimated - history.tokens(index))
        if is_impossible(usage, sent.estimated, budget):
            continue
        yield message, UsageBaseline(sent, usage.input_tokens, usage.cache_read_tokens)


def _choose_baseline(newest: UsageBaseline, older: Iterable[UsageBaseline], most_ratio: float) -> UsageBaseline:
    """Return the count to use as baseline: the newest, unless it measured another view.

    If an older count is larger, the context shrank in between: either the host dropped messages, or a compaction without a record
    here made a smaller view, while this list is whole. The count closer to the estimate is right.

    Args:
        most_ratio: A count below this part of an older one means that the context shrank.
    """
    largest = max(older, key=lambda count: count.input_tokens, default=newest)
    has_shrunk = newest.input_tokens < largest.input_tokens * most_ratio
    return largest if has_shrunk and _distance(largest) < _distance(newest) else newest


def _distance(count: UsageBaseline) -> float:
    """Return the distance of a count from the estimate: 0 if equal, and the same for half and for twice the estimate."""
    return abs(math.log(count.input_tokens / max(count.key.estimated, 1)))


def _last_known_piece(conversation: Conversation[M], key: ViewKey) -> int:
    """Return the last piece of this view up to which counts were taken or looked for; -1 if none."""
    baseline = conversation.sizes.baseline_of(key)
    last_checked = conversation.sizes.last_checked
    counted = baseline.key.piece_count if baseline is not None else -1
    return max(counted, last_checked[1]) if last_checked is not None and last_checked[0].is_prefix_of(key) else counted
