"""A model call with recovery from overflows: the third of the four classes of flows (see engine.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from compaction_hooks.engine.call import Call
from compaction_hooks.engine.flow import ConversationFlow
from compaction_hooks.engine.learning import learn_from_answer, learn_from_overflow, report_usage
from compaction_hooks.engine.model_names import same_model
from compaction_hooks.engine.orders import Order
from compaction_hooks.engine.persistence import flush
from compaction_hooks.engine.result import CompactionOutcome
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.errors import ContextOverflowError
from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats.answers import is_cut_by_window, sealed_items
from compaction_hooks.formats.usage import context_tokens
from compaction_hooks.messages import M, Message
from compaction_hooks.native import is_native_refusal
from compaction_hooks.reasoning import is_reasoning_refusal
from compaction_hooks.runtime.effects import (
    Failure,
    Flow,
    Outcome,
    Send,
    Success,
)
from compaction_hooks.runtime.streams import GuardedAsyncStream, GuardedStream
from compaction_hooks.tokens.windows import find_window
from compaction_hooks.view.record import CompactionReason, CompactionRecord
from compaction_hooks.view.snapshot import Snapshot, ViewKey

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.overflow import OverflowInfo

logger = logging.getLogger("compaction_hooks")


class SendingFlow(ConversationFlow[M]):
    """Sends a view. If the provider rejects it, or cuts the answer short, compacts and sends once more."""

    def call(self, call: Call[M], read: Callable[[object], Message | None]) -> Flow[object]:
        """Transform and send; on an overflow compact and send once more.

        Args:
            read: Reads a response into an assistant message, for its usage and how it ended.
        """
        sent = yield from self.transform(call)
        first, sent = yield from self._send(call, sent)
        if isinstance(first, Success):
            answer = self._record_response(first.value, sent, read)
            if answer is None or not self._is_cut_short(answer, sent, call):
                return first.value
            return (yield from self._send_again(call, first.value, answer, read))

        sent = yield from self._recover_view(call, first.error, sent)
        second, sent = yield from self._send(call, sent)
        while isinstance(second, Failure) and self._is_of_bytes(second.error, call):
            # Nothing is paid for, and each time less is sent: without media the error is raised.
            sent = yield from self._recover_view(call, second.error, sent)
            second, sent = yield from self._send(call, sent)
        if isinstance(second, Success):
            self._record_response(second.value, sent, read)
            return second.value

        # One such recovery for each call: a second overflow teaches the window and is raised.
        info = self._find_overflow(second.error, sent.key.model)
        if info is None:
            raise second.error
        learn_from_overflow(self.conversation, self.shared, call, self.take_snapshot(call), sent, info)
        snapshot = self.take_snapshot(call).freeze(call.messages)
        order = Order(reason=CompactionReason.OVERFLOW)
        raise self.new_compaction(call, snapshot, self.find_budget(snapshot), order).overflow_error() from second.error

    def recover(self, call: Call[M], error: BaseException) -> Flow[LastSent[M]]:
        """Return a view to send after an error that the host caught. Raise `error` itself if another view is no cure.

        Raises:
            ContextOverflowError: nothing smaller is valid.
        """
        if self._is_of_another_model(error, call):
            raise error
        return (yield from self._recover_view(call, error, self.conversation.last_sent))

    def _send(self, call: Call[M], sent: LastSent[M]) -> Flow[tuple[Success | Failure, LastSent[M]]]:
        """Send a view, and once more without what the provider refuses. Return the answer and the view last sent."""
        answer: Success | Failure = yield Send(sent.view)
        while isinstance(answer, Failure):
            accepted = yield from self._drop_refused(call, answer.error, sent)
            if accepted is None:
                break
            sent = accepted
            answer = yield Send(sent.view)
        if isinstance(answer, Success):
            yield from self._note_sealed(call, answer.value)
        return answer, sent

    def _note_sealed(self, call: Call[M], response: object) -> Flow[None]:
        """Note the issuer of a sealed summary in an answer now: another process may make the next call, of another model."""
        items = sealed_items(response)
        if items and self.conversation.format.name == "openai_responses":
            self.take_snapshot(call._replace(messages=[*call.messages, *cast("list[M]", items)]))
            yield from flush(self.conversation)

    def _drop_refused(
        self, call: Call[M], error: BaseException, refused: LastSent[M] | None
    ) -> Flow[LastSent[M] | None]:
        """Return a view without the reasoning or the native items that an error refuses; None if it refuses neither."""
        bare: LastSent[M] | None = None
        refuses_reasoning = call.settings.sealed_reasoning != "keep" and is_reasoning_refusal(error)
        # Native items first: a sentence that fits both is about them too, and then the same rotated key sealed the reasoning.
        if is_native_refusal(error):
            key = self.take_snapshot(call).key if refused is None else refused.key
            bare = yield from self._drop_native(call, key, with_reasoning=refuses_reasoning)
        if bare is None and refuses_reasoning:
            bare = yield from self._drop_reasoning(call, refused)
        return bare

    def _drop_native(self, call: Call[M], refused: ViewKey, *, with_reasoning: bool) -> Flow[LastSent[M] | None]:
        """Send the native items no more. Return the view, or None if the refused one held no items.

        Args:
            with_reasoning: Whether to leave out the reasoning so far too.
        """
        if not refused.has_native and (refused.start is None or not refused.start.is_sent):
            return None
        conversation, snapshot = self.conversation, self.take_snapshot(call)
        record = snapshot.record
        notes: list[CompactionRecord] = []
        if not refused.has_native:
            notes = [conversation.refuse_natives(snapshot.history)]
        elif record is not None and record.native is not None:  # another caller may have been refused too
            notes = [conversation.records.refuse_natives(record.native.issuer)]
            conversation.natives.refusals[refused.model] += 1
        if with_reasoning:
            conversation.reasoning.record_refusal(call.model or self.shared.model)
        conversation.queue.replace([], notes)
        logger.warning("session %s: the provider refused its own summary: going on without it", conversation.id)
        return (yield from self.transform(call))  # without it the messages that it covers may be too many

    def _drop_reasoning(self, call: Call[M], refused: LastSent[M] | None) -> Flow[LastSent[M] | None]:
        """Leave out all reasoning so far, from now on. Return the view, or None if the refused one held no reasoning."""
        before = refused.unmerged if refused else self.take_snapshot(call).stored_view
        self.conversation.reasoning.record_refusal(call.model or self.shared.model)
        snapshot = self.take_snapshot(call)
        if snapshot.stored_view == before and not (refused and refused.is_by_hand):
            return None
        logger.warning(
            "session %s: the provider refused the reasoning that was sent: going on without it", self.conversation.id
        )
        return (yield from self.hand_out(call, snapshot))

    def _recover_view(self, call: Call[M], error: BaseException, sent: LastSent[M] | None) -> Flow[LastSent[M]]:
        """Return a view that cures `error`: compacted harder, or without what it refuses. Raise `error` if neither is a cure."""
        accepted = yield from self._drop_refused(call, error, sent)
        if accepted is not None:
            return accepted

        settings = call.settings
        info = _parse(error, settings.overflow_patterns)
        if info is None or not info.is_recoverable or not settings.compact_on_overflow:
            raise error

        yield from self.sync_store(before_paying=True)
        others_end = yield from self.wait_for_others()
        if info.is_bytes:
            return (yield from self._leave_media_out_of(call, error, sent, info.limit_bytes))
        if not self._is_of_another_model(error, call):  # a `send` may fall back to another model by itself
            learn_from_overflow(self.conversation, self.shared, call, self.take_snapshot(call), sent, info)

        snapshot = self.take_snapshot(call)
        budget = self.find_budget(snapshot)
        if (others_end == "settled" or _is_another_view(snapshot, sent)) and snapshot.tokens <= budget.trigger:
            return (yield from self.hand_out(call, snapshot))

        snapshot = snapshot.freeze(call.messages)
        unfit: ContextOverflowError | None = None
        try:
            compacted = yield from self._compact_view(call, _overflow_order(others_end, must_fit=True))
        except ContextOverflowError as failure:
            compacted, unfit = None, failure
        if compacted is not None:
            return compacted
        now = self.take_snapshot(call)
        if not snapshot.is_current and now.tokens <= budget.trigger:  # the host went back meanwhile
            return (yield from self.hand_out(call, now))
        if unfit is not None:
            raise unfit from error
        raise error

    def _leave_media_out_of(
        self, call: Call[M], error: BaseException, sent: LastSent[M] | None, limit_bytes: int | None
    ) -> Flow[LastSent[M]]:
        """Leave media out after `error` rejected a request for its bytes, and remember its size; raise `error` without media."""
        from compaction_hooks.strategies.drop_media import chars_within, view_chars  # few requests are refused so

        snapshot = self.take_snapshot(call)
        if _is_another_view(snapshot, sent):
            return (yield from self.hand_out(call, snapshot))

        refused = view_chars(snapshot, snapshot.projection)
        order = Order(reason=CompactionReason.OVERFLOW, only_media=True, limit_bytes=limit_bytes)
        compacted = yield from self._compact_view(call, order)
        if compacted is None:
            raise error
        limit = refused if limit_bytes is None else chars_within(limit_bytes)
        self.conversation.cooldown.max_chars = min(limit, refused - 1)
        return compacted

    def _compact_view(self, call: Call[M], order: Order) -> Flow[LastSent[M] | None]:
        """Compact; return the view to send, or None if nothing was compacted."""
        attempt, result = yield from self.run_compaction(call, order)
        return attempt.last_sent if result.outcome is CompactionOutcome.COMPACTED else None

    def _send_again(
        self, call: Call[M], response: object, answer: Message, read: Callable[[object], Message | None]
    ) -> Flow[object]:
        """Compact and send once more, because the window cut the answer short; return the short answer if that fails."""
        call = call._replace(cut_at=context_tokens(answer.usage) if answer.usage is not None else None)
        yield from self.sync_store(before_paying=True)
        others_end = yield from self.wait_for_others()
        compacted = yield from self._compact_view(call, _overflow_order(others_end, must_fit=False))
        self.conversation.cooldown.has_overflowed = False
        if compacted is None:
            return response

        second, sent = yield from self._send(call, compacted)
        if isinstance(second, Failure):
            logger.warning("the answer stays cut short: sending again failed (%s)", type(second.error).__name__)
            return response
        self._learn_answer_limit(call, answer, self._record_response(second.value, sent, read))
        return second.value

    def _learn_answer_limit(self, call: Call[M], first: Message, second: Message | None) -> None:
        """Remember the limit of the model's answers if more room did not make the answer longer: it is no overflow then."""
        if second is None or second.stop_reason != "length" or first.usage is None or second.usage is None:
            return
        if first.usage.output_tokens == second.usage.output_tokens > 0:
            self.shared.answer_limits[call.model or self.shared.model] = second.usage.output_tokens

    def _is_cut_short(self, answer: Message, sent: LastSent[M], call: Call[M]) -> bool:
        limit = self.shared.answer_limits.get(call.model or self.shared.model)
        if answer.stop_reason == "length" and answer.usage is not None and answer.usage.output_tokens == limit:
            return False
        requested = call.max_output_tokens or call.settings.max_output_tokens
        window = sent.budget.window if sent.budget is not None else None
        return call.settings.compact_on_overflow and is_cut_by_window(answer, requested=requested, window=window)

    def _is_of_another_model(self, error: BaseException, call: Call[M]) -> bool:
        """Whether an error names another model than this call's: one used earlier in this conversation, or a known one.

        Any other name may be a router's alias for the same model.
        """
        asked = call.model or self.shared.model
        named = _find_model_name(error)
        if asked is None or named is None or same_model(named, asked):
            return False
        return named in self.conversation.sizes.models or bool(find_window(named) and find_window(asked))

    def _record_response(
        self, response: object, sent: LastSent[M], read: Callable[[object], Message | None]
    ) -> Message | None:
        """Learn the usage and the window from an answer; return the answer as read.

        An answer may tell that the input overflowed although it was accepted: then the next call compacts first. A stream is
        recorded chunk by chunk, as the host reads it.
        """
        if isinstance(response, GuardedStream | GuardedAsyncStream):
            response.on_chunk = lambda chunk: self._record_chunk(chunk, sent, read)
            return None
        answer = read(response)
        if answer is not None and answer.usage is not None and answer.stop_reason not in ("error", "aborted"):
            report_usage(self.conversation, self.shared, answer.usage, sent, answer.model)
            learn_from_answer(self.shared, sent.key.model, answer, sent.budget)
        # A plain text is the model's own, and may speak of overflows without being one.
        if not isinstance(response, str) and self._find_overflow(response, sent.key.model) is not None:
            self.conversation.cooldown.has_overflowed = True
        return answer

    def _record_chunk(self, chunk: object, sent: LastSent[M], read: Callable[[object], Message | None]) -> None:
        """Record a chunk of a stream; skip it if it tells nothing of usage or ending."""
        if read(chunk) is not None:
            with self.conversation.lock:
                self._record_response(chunk, sent, read)

    def _is_of_bytes(self, error: BaseException, call: Call[M]) -> bool:
        info = _parse(error, call.settings.overflow_patterns)
        return info is not None and info.is_bytes

    def _find_overflow(self, evidence: object, model: str | None) -> OverflowInfo | None:
        """Return the overflow of the context that an error or a response reports, or None."""
        info = _parse(evidence, self.shared.find_settings(model).overflow_patterns)
        return info if info is not None and info.kind == "context_overflow" else None


def _overflow_order(others_end: Outcome | None, *, must_fit: bool) -> Order:
    return Order(reason=CompactionReason.OVERFLOW, may_ask=others_end != "failed", must_fit=must_fit)


def _parse(evidence: object, patterns: Sequence[str]) -> OverflowInfo | None:
    from compaction_hooks.overflow import parse_overflow  # its patterns take as long to compile as all others

    return parse_overflow(evidence, patterns=patterns)


def _find_model_name(error: BaseException) -> str | None:
    """Return the model that an error names, as litellm's (`model`) and pydantic-ai's (`model_name`) do, or None."""
    names = (read_attribute(error, "model"), read_attribute(error, "model_name"))
    return next((name for name in names if isinstance(name, str)), None)


def _is_another_view(snapshot: Snapshot[M], sent: LastSent[M] | None) -> bool:
    """Whether a later compaction, here or in another worker, replaced the rejected view."""
    return sent is not None and snapshot.key.record_id != sent.key.record_id
