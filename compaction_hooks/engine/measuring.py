"""The size of the view, and what the provider's counts and errors teach.

1. A view is counted as far as the provider counted it, and estimated beyond.
2. The answers in a list carry counts (`learn_from_embedded_usage`); `report_usage` and the errors teach the rest.
3. A count that the view cannot have (a sum of calls, another model's) teaches nothing, and ends what such counts taught before; nor
   does that of a prompt which the server cut (`cut_prompts`).
4. A refusal teaches first the window that it names, then the size of documents that no count included, then the model's ratio.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator

from compaction_hooks.engine.call import SMALLEST_WINDOW, Call, SharedState, budget_for
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.cut_prompts import is_believable
from compaction_hooks.engine.sizes import UsageBaseline
from compaction_hooks.formats.answers import context_tokens, is_cut_by_window, is_usable
from compaction_hooks.history import History
from compaction_hooks.messages import M, Media, Message, Usage
from compaction_hooks.overflow import OverflowInfo
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO, TARGET_RATIO, Budget
from compaction_hooks.tokens.calibration import MAXIMUM_RATIO, UNTAUGHT, Calibration
from compaction_hooks.tokens.estimator import OTHER_MEDIA_TOKENS, find_media
from compaction_hooks.tokens.windows import same_model
from compaction_hooks.view.snapshot import Reading, Snapshot, ViewKey

logger = logging.getLogger("compaction_hooks")


def measure_view(
    calibration: Calibration, key: ViewKey, counted: UsageBaseline | None, least_ratio: float = 0.0
) -> int:
    """Return the size of a view in tokens of the model: counted up to the baseline, estimated beyond with `least_ratio` or more."""
    if counted is None:
        return calibration.predict(key.estimated)
    later = calibration._replace(ratio=max(calibration.ratio, least_ratio))
    return counted.input_tokens + max(0, later.predict_growth(key.estimated - counted.key.estimated))


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
    first_kept = sent.history.first_piece(sent.view.whole_from)
    if not is_believable(
        conversation, shared, sent.history, first_kept, counted, may_be_shortened=sent.may_be_shortened
    ):
        return
    _observe(conversation, shared, counted)
    # Only a compaction resets this: the answer itself may have reported an overflow before its usage came. If the view was replaced
    # meanwhile, its overflow is cured already.
    is_over = sent.budget is not None and usage.input_tokens > sent.budget.window
    conversation.cooldown.has_overflowed |= is_over and sent.key.record_id == conversation.records.active_id


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
        share = math.ceil(excess / snapshot.calibration.ratio / len(documents))
        conversation.learn_media((media, share) for media in documents)
    else:
        _observe(conversation, shared, UsageBaseline(sent.key, actual))


def _find_unseen_documents(conversation: Conversation[M], snapshot: Snapshot[M], sent: Snapshot[M]) -> list[Media]:
    """Return the documents and sounds in a rejected view, without those that the provider has counted before."""
    baseline = conversation.sizes.baseline_of(sent.key)
    counted = baseline.key.piece_count if baseline is not None else 0

    found: list[Media] = []
    for index, message in snapshot.view.pieces(snapshot.history):
        if index >= counted and message.role != "system":
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
    refusals = 0 if baseline.key.dressed.shows_items else known.native_refusals  # it accepted them
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
    conversation: Conversation[M], call: Call[M], reading: Reading[M], oldest_run: int
) -> None:
    """Learn from the newest usage that an assistant message carries, if it measured the present view.

    An aborted, failed or empty call measured nothing.

    Args:
        oldest_run: A count made before this run measured a larger view than the present one.
    """
    history, key, budget = reading.history, reading.key, reading.budget
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
    first_kept = history.first_piece(reading.view.whole_from)
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
        sent = key.before(index, history.tokens(index))
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
