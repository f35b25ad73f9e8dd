"""What the provider's counts teach: usage that is reported, usage inside answers, and errors about too long requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from compaction_hooks.engine.call import SMALLEST_WINDOW, Call, SharedState, budget_for
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.sizes import LastSent, UsageBaseline
from compaction_hooks.formats.answers import is_cut_by_window
from compaction_hooks.formats.usage import context_tokens, is_usable
from compaction_hooks.history import History
from compaction_hooks.messages import M, Media, Message, Usage
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO, TARGET_RATIO, Budget
from compaction_hooks.tokens.calibration import MAXIMUM_RATIO, Calibration
from compaction_hooks.tokens.estimator import OTHER_MEDIA_TOKENS
from compaction_hooks.tokens.media import find_media
from compaction_hooks.view.snapshot import Snapshot, ViewKey

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.overflow import OverflowInfo


def report_usage(
    conversation: Conversation[M], shared: SharedState, usage: Usage, sent: LastSent[M] | None, model: str | None
) -> None:
    """Take in what the provider counted for a view that was sent.

    Ignored when it measured another model's call, or when it is empty or nonsense (all zero, negative). One that cannot be the
    count of this view, such as a sum over all calls, takes back what the reports before it taught.
    """
    if sent is None or not is_usable(usage):
        return
    if model is not None and sent.key.model is not None and not same_model(model, sent.key.model):
        return
    if _is_impossible(usage, sent.key.estimated, sent.budget):
        conversation.sizes.baseline = conversation.sizes.last_checked = None
        conversation.sizes.calibrations.pop(sent.key.model, None)
        return
    _observe(conversation, shared, UsageBaseline(sent.key, usage.input_tokens, usage.cache_read_tokens))
    # Only a compaction takes this back: the answer itself may have said so before its usage came. Of a view that was replaced
    # meanwhile it says nothing that is not cured.
    is_over = sent.budget is not None and usage.input_tokens > sent.budget.window
    conversation.cooldown.has_overflowed |= is_over and sent.key.record_id == conversation.records.active_id


def _is_impossible(usage: Usage, estimated: int, budget: Budget | None) -> bool:
    """Whether a provider that accepted a view cannot have counted this for it.

    What hides in front of the messages explains a count up to the window, a heavy tokenizer what is in proportion to the view.
    """
    return budget is not None and usage.input_tokens > budget.window + MAXIMUM_RATIO * estimated


def learn_from_answer(shared: SharedState, model: str | None, answer: Message, budget: Budget | None) -> None:
    """Correct a window that was believed too large: the provider says that this answer filled it."""
    if answer.stop_reason != "window" or answer.usage is None or not is_usable(answer.usage):
        return
    if model is not None and answer.model is not None and not same_model(answer.model, model):
        return
    filled = max(context_tokens(answer.usage), SMALLEST_WINDOW)
    if budget is None or filled < budget.window:
        shared.learn_window(model, filled)


def learn_from_overflow(
    conversation: Conversation[M],
    shared: SharedState,
    call: Call[M],
    snapshot: Snapshot[M],
    sent: LastSent[M] | None,
    info: OverflowInfo,
) -> None:
    """Correct the window, and the estimate of the view that was rejected: it is larger than the window, whatever we thought.

    A document or a sound may have any size, which no message tells: where the view has one that no count included, what the
    estimate did not see is its size; of several, each has an equal share.

    Args:
        sent: The view that was rejected; None when this conversation handed out none.
    """
    model = call.model
    if info.limit_tokens is not None:
        shared.learn_window(model, max(info.limit_tokens, SMALLEST_WINDOW))
    if info.output_tokens is not None:
        # The host asks for that much every time: it must stay free, or the next request overflows as well.
        shared.requested_outputs[model or shared.model] = info.output_tokens
    budget = budget_for(conversation, shared, call)
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


def _find_unseen_documents(conversation: Conversation[M], snapshot: Snapshot[M], sent: LastSent[M]) -> list[Media]:
    """Return the documents and sounds in a view that was rejected, but those that the provider has counted before."""
    history, projection, baseline = snapshot.history, snapshot.projection, conversation.sizes.baseline
    counted = baseline.key.piece_count if baseline is not None and baseline.key.is_prefix_of(sent.key) else 0
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
    """What an error says was sent, without the room that was asked for the answer."""
    if info.input_tokens is not None or info.actual_tokens is None:
        return info.input_tokens
    return info.actual_tokens - (info.output_tokens or 0)


def _observe(conversation: Conversation[M], shared: SharedState, baseline: UsageBaseline) -> None:
    model, estimated = baseline.key.model, baseline.key.estimated
    calibration = find_calibration(conversation, shared, model)
    previous = conversation.sizes.baseline
    if previous is not None and previous.key.is_prefix_of(baseline.key):
        calibration = calibration.observe_growth(
            estimated=estimated - previous.key.estimated, counted=baseline.input_tokens - previous.input_tokens
        )
    conversation.sizes.baseline = baseline
    conversation.sizes.calibrations[model] = calibration.observe(estimated=estimated, counted=baseline.input_tokens)
    shared.calibrations[model] = conversation.sizes.calibrations[model].for_another_conversation()


def find_calibration(conversation: Conversation[M], shared: SharedState, model: str | None) -> Calibration:
    """Return what this conversation and its records learned of the model, else the ratio others did; a hidden prefix is its own."""
    own = conversation.sizes.calibrations
    learned = own.get(model)
    if learned is None and own:
        learned = _find_alias(own, model)
    return learned or shared.calibrations.get(model) or _UNTAUGHT


def _find_alias(known: Mapping[str | None, Calibration], model: str | None) -> Calibration | None:
    """What was learned of a model under another of its names."""
    names = (name for name in known if name is not None and model is not None and same_model(name, model))
    return next((known[name] for name in names), None)


_UNTAUGHT = Calibration()


def learn_from_embedded_usage(
    conversation: Conversation[M],
    shared: SharedState,
    history: History[M],
    key: ViewKey,
    oldest_run: int,
    budget: Budget | None,
) -> None:
    """Take in the newest usage that an assistant message itself carries, when it measured the present view.

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
    counted, before = newest.baseline, conversation.sizes.baseline
    if before is not None and before.key.is_prefix_of(key):
        # The view here only grew. A count as small as after a compaction is of a view that another worker made.
        found = _choose_baseline(counted, [before], TARGET_RATIO)
    else:
        found = _choose_baseline(counted, (count.baseline for count in counts), 1 - MINIMUM_GAIN_RATIO)
    if found is not before:
        _observe(conversation, shared, found)
    # Only a compaction takes this back, as for usage that is reported.
    if found is counted:
        window = budget.window if budget is not None else None
        is_over = window is not None and found.input_tokens > window
        # The call that gave it may have asked for less than the present one does: what it asked for is not known.
        is_cut = is_cut_by_window(newest.answer, requested=None, window=window)
        conversation.cooldown.has_overflowed |= is_over or is_cut
        learn_from_answer(shared, key.model, newest.answer, budget)


class _Count(NamedTuple):
    """A usage that an assistant message carries, held against the view up to it."""

    answer: Message
    baseline: UsageBaseline


def _read_counts(
    history: History[M], key: ViewKey, oldest_run: int, budget: Budget | None, known_until: int
) -> Iterator[_Count]:
    """Yield the usages of this model that can be used, newest first, back to what is known and to the oldest run of the view."""
    for index in history.counted_answers():
        message = history.piece(index).message
        # What stands before the first run, reasoning alone, belongs to that once it is there.
        if index <= known_until or max(history.run_of(index), history.base) < oldest_run:
            return
        usage = message.usage
        if usage is None or not is_usable(usage, message.stop_reason):
            continue
        if key.model is not None and message.model is not None and not same_model(key.model, message.model):
            continue
        sent = key._replace(piece_count=index, estimated=key.estimated - history.tokens(index))
        if _is_impossible(usage, sent.estimated, budget):
            continue
        yield _Count(message, UsageBaseline(sent, usage.input_tokens, usage.cache_read_tokens))


def _choose_baseline(newest: UsageBaseline, older: Iterable[UsageBaseline], most_ratio: float) -> UsageBaseline:
    """Return the count to go by: the newest, unless it is of another view.

    If an older one is larger, the context shrank in between: the host dropped messages, or a compaction whose record is not here
    made a smaller view, while this list is whole. Which of the two, the estimate tells.

    Args:
        most_ratio: A count below this part of an older one is a sign of that.
    """
    largest = max(older, key=lambda count: count.input_tokens, default=newest)
    has_shrunk = newest.input_tokens < largest.input_tokens * most_ratio
    return largest if has_shrunk and _distance(largest) < _distance(newest) else newest


def _distance(count: UsageBaseline) -> float:
    """Return how far a count is from the estimate: 0 if they are equal, the same for half of it and for twice of it."""
    return abs(math.log(count.input_tokens / max(count.key.estimated, 1)))


def _last_known_piece(conversation: Conversation[M], key: ViewKey) -> int:
    """The last piece up to which it is known what was counted for this view, or that nothing was; -1 where nothing is known."""
    baseline, last_checked = conversation.sizes.baseline, conversation.sizes.last_checked
    counted = baseline.key.piece_count if baseline is not None and baseline.key.is_prefix_of(key) else -1
    return max(counted, last_checked[1]) if last_checked is not None and last_checked[0].is_prefix_of(key) else counted


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: equal, or alike but for a provider's prefix and a date or version behind.

    >>> same_model("openai/gpt-5", "gpt-5-2025-08-07"), same_model("gpt-5", "gpt-5-mini")
    (True, False)
    """
    short, long = sorted((one.rpartition("/")[2].lower(), other.rpartition("/")[2].lower()), key=len)
    rest = long.removeprefix(short)
    return rest == "" or (
        rest != long and all(part.isdigit() or part in ("latest", "v1") for part in rest.strip("-@:.").split("-"))
    )
