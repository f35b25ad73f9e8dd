"""A model call with recovery: if the provider rejects a view, or cuts the answer short, compact and send once more.

1. What the provider refuses in a view (its own items, reasoning) is left out, and the view is sent again until it is accepted.
2. An overflow is compacted and sent once more; a second one teaches the window and is raised.
3. A refusal for bytes leaves media out, and pays for nothing.
4. A second try never loses the first answer: if it fails, the short answer is returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import cast

from compaction_hooks.engine.call import Call, Order, find_budget
from compaction_hooks.engine.compact import run_compaction, wait_for_others
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.endings import unfit_error
from compaction_hooks.engine.looking import learn_and_look
from compaction_hooks.engine.measuring import learn_from_answer, learn_from_overflow, report_usage
from compaction_hooks.engine.persistence import flush, sync_store
from compaction_hooks.engine.result import CompactionOutcome
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.engine.transform import send_view, transform
from compaction_hooks.errors import ContextOverflowError
from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats.answers import ENDINGS, context_tokens, is_cut_by_window, read_output, sealed_items
from compaction_hooks.messages import M, Message
from compaction_hooks.native import is_native_refusal
from compaction_hooks.overflow import OverflowInfo, parse_overflow
from compaction_hooks.reasoning import is_reasoning_refusal
from compaction_hooks.runtime.effects import (
    Failure,
    Flow,
    Outcome,
    Send,
    Success,
)
from compaction_hooks.runtime.guards import GuardedAsyncStream, GuardedStream
from compaction_hooks.strategies.reduce_parts import chars_within, view_chars
from compaction_hooks.tokens.windows import find_window, same_model
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")


def handle_answer(
    conversation: Conversation[M],
    call: Call[M],
    read: Callable[[object], Message | None],
    sent: LastSent[M] | None,
    first: Success | Failure,
) -> Flow[object]:
    """Go on from the first answer to a call: learn from it; on an overflow compact and send once more.

    Args:
        read: Reads a response into an assistant message, for its usage and how it ended.
        sent: The view that was sent; None: another call of this conversation has sent another one since.
    """
    first, sent = yield from _accept(conversation, call, first, sent)
    if isinstance(first, Success):
        if sent is None:
            return first.value
        answer = _record_response(conversation, call, first.value, sent, read)
        if answer is None or not _is_cut_short(answer, sent, call):
            return first.value
        return (yield from _send_again(conversation, call, first.value, answer, read))

    sent = yield from _recover_view(conversation, call, first.error, sent)
    second, sent = yield from _send(conversation, call, sent)
    while isinstance(second, Failure) and _is_of_bytes(second.error, call):
        # Nothing is paid for, and each time less is sent: without media the error is raised.
        sent = yield from _recover_view(conversation, call, second.error, sent)
        second, sent = yield from _send(conversation, call, sent)
    if isinstance(second, Success):
        _record_response(conversation, call, second.value, sent, read)
        return second.value

    # One such recovery for each call: a second overflow teaches the window and is raised.
    info = _find_overflow(call, second.error, sent.snapshot.model)
    if info is None:
        raise second.error
    learn_from_overflow(conversation, call.shared, call, learn_and_look(conversation, call), sent.snapshot, info)
    snapshot = learn_and_look(conversation, call)
    raise unfit_error(snapshot, call.settings, find_budget(call, snapshot).window) from second.error


def recover(conversation: Conversation[M], call: Call[M], error: BaseException) -> Flow[LastSent[M]]:
    """Return a view to send after an error that the host caught. Raise `error` itself if another view is no cure.

    Raises:
        ContextOverflowError: nothing smaller is valid.
    """
    if _is_of_another_model(conversation, error, call):
        raise error
    return (yield from _recover_view(conversation, call, error, conversation.last_sent))


def _send(
    conversation: Conversation[M], call: Call[M], sent: LastSent[M]
) -> Flow[tuple[Success | Failure, LastSent[M]]]:
    """Send a view, and once more without what the provider refuses. Return the answer and the view last sent."""
    answer: Success | Failure = yield Send(sent.view)
    answer, last = yield from _accept(conversation, call, answer, sent)
    return answer, last or sent


def _accept(
    conversation: Conversation[M], call: Call[M], answer: Success | Failure, sent: LastSent[M] | None
) -> Flow[tuple[Success | Failure, LastSent[M] | None]]:
    """Send again without what the provider refuses, until it accepts the view. Return the answer and the view last sent."""
    while isinstance(answer, Failure):
        accepted = yield from _drop_refused(conversation, call, answer.error, sent)
        if accepted is None:
            break
        sent = accepted
        answer = yield Send(sent.view)
    if isinstance(answer, Success):
        if sent is not None:
            conversation.totals.count(sent, is_answered=True)
        yield from _note_sealed(conversation, call, answer.value)
    return answer, sent


def _note_sealed(conversation: Conversation[M], call: Call[M], response: object) -> Flow[None]:
    """Note the issuer of a sealed summary in an answer now: another process may make the next call, of another model."""
    items = sealed_items(response)
    if items and conversation.format.name == "openai_responses":
        learn_and_look(conversation, call._replace(messages=[*call.messages, *cast("list[M]", items)]))
        yield from flush(conversation)


def _drop_refused(
    conversation: Conversation[M], call: Call[M], error: BaseException, refused: LastSent[M] | None
) -> Flow[LastSent[M] | None]:
    """Return a view without the reasoning or the items of the provider's own that an error refuses; None if it refuses neither.

    The owner of what was refused notes it, and the call is made again. A sentence that fits both is about the items too: the same
    rotated key sealed the reasoning.
    """
    may_refuse_items = is_native_refusal(error)
    refuses_reasoning = call.settings.sealed_reasoning != "keep" and is_reasoning_refusal(error)
    if not may_refuse_items and not refuses_reasoning:
        return None

    sent = refused.snapshot if refused else learn_and_look(conversation, call)
    before = refused.to_store if refused else sent.to_store
    refuses_items = may_refuse_items and sent.key.dressed.shows_native
    if not refuses_items and not refuses_reasoning:
        return None

    if refuses_items:
        conversation.refuse_items(sent, learn_and_look(conversation, call))
    if refuses_reasoning:
        conversation.reasoning.record_refusal(call.model or call.shared.model)
    is_by_hand = refused is not None and refused.is_by_hand
    if not refuses_items and not is_by_hand and learn_and_look(conversation, call).to_store == before:
        return None  # no reasoning was sent

    what = "its own summary" if refuses_items else "the reasoning that was sent"
    logger.warning("session %s: the provider refused %s: going on without it", conversation.id, what)
    return (yield from transform(conversation, call))  # without a summary the messages that it covers may be too many


def _recover_view(
    conversation: Conversation[M], call: Call[M], error: BaseException, sent: LastSent[M] | None
) -> Flow[LastSent[M]]:
    """Return a view that cures `error`: compacted harder, or without what it refuses. Raise `error` if neither is a cure."""
    accepted = yield from _drop_refused(conversation, call, error, sent)
    if accepted is not None:
        return accepted

    settings = call.settings
    info = _parse(error, settings.overflow_patterns)
    if info is None or not info.is_recoverable or not settings.compact_on_overflow:
        raise error

    yield from sync_store(conversation, before_paying=True)
    others_end = yield from wait_for_others(conversation)
    if info.is_bytes:
        return (yield from _send_without_media(conversation, call, error, sent, info.limit_bytes))
    if not _is_of_another_model(conversation, error, call):  # a `send` may fall back to another model by itself
        refused = sent.snapshot if sent else None
        learn_from_overflow(conversation, call.shared, call, learn_and_look(conversation, call), refused, info)

    snapshot = learn_and_look(conversation, call)
    budget = find_budget(call, snapshot)
    if (others_end == "settled" or _is_another_view(snapshot, sent)) and snapshot.tokens <= budget.trigger:
        return (yield from send_view(conversation, call, snapshot))

    snapshot = snapshot.freeze(call.messages)
    unfit: ContextOverflowError | None = None
    try:
        compacted = yield from _compact_view(conversation, call, _overflow_order(others_end, must_fit=True))
    except ContextOverflowError as failure:
        compacted, unfit = None, failure
    if compacted is not None:
        return compacted
    now = learn_and_look(conversation, call)
    if not snapshot.is_current and now.tokens <= budget.trigger:  # the host went back meanwhile
        return (yield from send_view(conversation, call, now))
    if unfit is not None:
        raise unfit from error
    raise error


def _send_without_media(
    conversation: Conversation[M],
    call: Call[M],
    error: BaseException,
    sent: LastSent[M] | None,
    limit_bytes: int | None,
) -> Flow[LastSent[M]]:
    """Leave media out after `error` rejected a request for its bytes, and remember its size; raise `error` without media."""
    snapshot = learn_and_look(conversation, call)
    if _is_another_view(snapshot, sent):
        return (yield from send_view(conversation, call, snapshot))

    refused = view_chars(snapshot)
    order = Order(reason=CompactionReason.OVERFLOW, only_media=True, limit_bytes=limit_bytes)
    compacted = yield from _compact_view(conversation, call, order)
    if compacted is None:
        raise error
    limit = refused if limit_bytes is None else chars_within(limit_bytes)
    conversation.cooldown.max_chars = min(limit, refused - 1)
    return compacted


def _compact_view(conversation: Conversation[M], call: Call[M], order: Order) -> Flow[LastSent[M] | None]:
    """Compact; return the view to send, or None if nothing was compacted."""
    attempt, result = yield from run_compaction(conversation, call, order)
    return attempt.last_sent if result.outcome is CompactionOutcome.COMPACTED else None


def _send_again(
    conversation: Conversation[M],
    call: Call[M],
    response: object,
    answer: Message,
    read: Callable[[object], Message | None],
) -> Flow[object]:
    """Compact and send once more, because the window cut the answer short; return the short answer if that fails."""
    call = call._replace(cut_at=context_tokens(answer.usage) if answer.usage is not None else None)
    yield from sync_store(conversation, before_paying=True)
    others_end = yield from wait_for_others(conversation)
    compacted = yield from _compact_view(conversation, call, _overflow_order(others_end, must_fit=False))
    conversation.cooldown.has_overflowed = False
    if compacted is None:
        return response

    second, sent = yield from _send(conversation, call, compacted)
    if isinstance(second, Failure):
        why = type(second.error).__name__
        logger.warning("session %s: the answer stays cut short: sending again failed (%s)", conversation.id, why)
        return response
    _learn_answer_limit(call, answer, _record_response(conversation, call, second.value, sent, read))
    return second.value


def _learn_answer_limit(call: Call[M], first: Message, second: Message | None) -> None:
    """Remember the limit of the model's answers if more room did not make the answer longer: it is no overflow then."""
    if second is None or second.stop_reason != "length" or first.usage is None or second.usage is None:
        return
    if first.usage.output_tokens == second.usage.output_tokens > 0:
        call.shared.answer_limits[call.model or call.shared.model] = second.usage.output_tokens


def _is_cut_short(answer: Message, sent: LastSent[M], call: Call[M]) -> bool:
    limit = call.shared.answer_limits.get(call.model or call.shared.model)
    if answer.stop_reason == "length" and answer.usage is not None and answer.usage.output_tokens == limit:
        return False
    requested = call.max_output_tokens or call.settings.max_output_tokens
    window = sent.snapshot.window or None
    return call.settings.compact_on_overflow and is_cut_by_window(answer, requested=requested, window=window)


def _is_of_another_model(conversation: Conversation[M], error: BaseException, call: Call[M]) -> bool:
    """Whether an error names another model than this call's: one used earlier in this conversation, or a known one.

    Any other name may be a router's alias for the same model.
    """
    asked = call.model or call.shared.model
    names = (read_attribute(error, "model"), read_attribute(error, "model_name"))  # of litellm, and of pydantic-ai
    named = next((name for name in names if isinstance(name, str)), None)
    if asked is None or named is None or same_model(named, asked):
        return False
    return named in conversation.sizes.models or bool(find_window(named) and find_window(asked))


def _record_response(
    conversation: Conversation[M],
    call: Call[M],
    response: object,
    sent: LastSent[M],
    read: Callable[[object], Message | None],
) -> Message | None:
    """Learn the usage and the window from an answer; return the answer as read.

    An answer may tell that the input overflowed although it was accepted: then the next call compacts first. A stream is
    recorded chunk by chunk, as the host reads it.
    """
    if isinstance(response, GuardedStream | GuardedAsyncStream):
        response.on_chunk = lambda chunk: _record_chunk(conversation, call, chunk, sent, read)
        return None

    answer = read(response)
    if answer is not None and answer.usage is not None and answer.stop_reason not in ("error", "aborted"):
        report_usage(conversation, call.shared, answer.usage, sent.snapshot, answer.model)
        conversation.totals.report(answer.usage, sent.view, answer.model)
        learn_from_answer(call.shared, sent.snapshot.model, answer, sent.snapshot.budget)
    elif output := read_output(response):
        conversation.totals.report_output(output, sent.view)

    # A plain text is the model's own, and may speak of overflows without being one; an answer that ended by itself is none.
    has_ended = answer is not None and answer.stop_reason in ENDINGS
    if not isinstance(response, str) and not has_ended and _find_overflow(call, response, sent.snapshot.model):
        conversation.cooldown.has_overflowed = True
    return answer


def _record_chunk(
    conversation: Conversation[M],
    call: Call[M],
    chunk: object,
    sent: LastSent[M],
    read: Callable[[object], Message | None],
) -> None:
    """Record a chunk of a stream; skip it if it tells nothing of usage or ending."""
    if read(chunk) is not None:
        with conversation.lock:
            _record_response(conversation, call, chunk, sent, read)


def _is_of_bytes(error: BaseException, call: Call[M]) -> bool:
    info = _parse(error, call.settings.overflow_patterns)
    return info is not None and info.is_bytes


def _find_overflow(call: Call[M], evidence: object, model: str | None) -> OverflowInfo | None:
    """Return the overflow of the context that an error or a response reports, or None."""
    info = _parse(evidence, call.shared.find_settings(model).overflow_patterns)
    return info if info is not None and info.kind == "context_overflow" else None


def _overflow_order(others_end: Outcome | None, *, must_fit: bool) -> Order:
    return Order(reason=CompactionReason.OVERFLOW, may_ask=others_end != "failed", must_fit=must_fit)


def _parse(evidence: object, patterns: Sequence[str]) -> OverflowInfo | None:
    return parse_overflow(evidence, patterns=patterns)


def _is_another_view(snapshot: Snapshot[M], sent: LastSent[M] | None) -> bool:
    """Whether a later compaction, here or in another worker, replaced the rejected view."""
    return sent is not None and snapshot.key.record_id != sent.snapshot.key.record_id
