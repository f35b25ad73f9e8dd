"""What happens in one call, as generators that ask the world by effects: the same for the async and the sync driver.

Between two effects a flow runs under the conversation's lock; while it waits for an answer, it holds nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.glance import frame_of, glance
from compaction_hooks.engine.measuring import (
    Call,
    Shared,
    learn_from_answer,
    learn_from_overflow,
    look,
    remember_sent,
    report_usage,
    same_model,
)
from compaction_hooks.engine.persistence import ask_again, catch_up
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult, Order
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.errors import ConfigurationError, ContextOverflowError
from compaction_hooks.events import CompactionSkipped, CompactionStarted, PinMissing
from compaction_hooks.formats.answers import is_cut_by_window, read_quietly
from compaction_hooks.formats.usage import context_tokens
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M, Message
from compaction_hooks.runtime.effects import (
    Answered,
    Emit,
    Failure,
    Flight,
    FlightEnd,
    Flow,
    Instant,
    IsAborted,
    Now,
    Send,
    Wait,
)
from compaction_hooks.runtime.streams import GuardedAsyncStream, GuardedStream
from compaction_hooks.strategies.leave_out_media import chars_within, view_chars
from compaction_hooks.tokens.budget import KEEP_RECENT_RATIO, MANUAL_KEEP_RATIO, Budget
from compaction_hooks.tokens.windows import find_window
from compaction_hooks.triggers import Due
from compaction_hooks.validity import is_reasoning_refusal
from compaction_hooks.view.record import CompactionReason
from compaction_hooks.view.snapshot import Snapshot

if TYPE_CHECKING:  # needed only when something is due
    from compaction_hooks.engine.compaction import Compaction
    from compaction_hooks.overflow import OverflowInfo

logger = logging.getLogger("compaction_hooks")

OrderFor: TypeAlias = Callable[[Snapshot[M], Budget], Order]
"""What is ordered of an attempt, for the list as it stands when that begins."""


class ConversationFlow(Generic[M]):
    """The flows of one conversation."""

    def __init__(self, conversation: Conversation[M], shared: Shared) -> None:
        self._conversation = conversation
        self._shared = shared

    def transform(self, call: Call[M]) -> Flow[LastSent[M]]:
        """Return the view to send; compact first when the threshold is passed or the last call overflowed silently."""
        is_fresh = yield from self._catch_up(before_paying=False)
        yield from self._tell_missing_pins(call)
        call = yield from self._timed(call)
        may_ask, may_wait = True, True
        while True:
            is_aborted: bool = yield IsAborted()
            revision, snapshot = self._shared.revision.number, self._look(call)
            reason, due = self._reason_due(snapshot, call)
            order = _automatic(reason, may_ask=may_ask, due=due) if reason else _lightening()
            if reason is None and self._is_too_heavy(snapshot):
                reason = CompactionReason.OVERFLOW
            if reason is None:
                if self._conversation.cooldown.most_chars is None:  # else each call counts its characters
                    self._conversation.frame = frame_of(snapshot, call, self._shared, revision)
                return self._hand_out(snapshot)
            why = "aborted" if is_aborted else self._reason_to_wait(snapshot, reason)
            if why:
                yield from self._skip(snapshot, reason, why)
                return self._hand_out(snapshot)
            flight = self._conversation.flight
            if flight is not None and may_wait:
                end: FlightEnd = yield Wait(flight)
                may_ask = may_ask and end != "failed"
                may_wait = flight.done.done()
                continue
            if not is_fresh:
                is_fresh = yield from self._catch_up(before_paying=True)
                continue
            attempt, _ = yield from self._compacted(call, order)
            self._conversation.cooldown.has_overflowed = False
            return attempt.last_sent or self._hand_out(snapshot)

    def compact(self, call: Call[M], keep_recent_tokens: int | None, focus: str | None) -> Flow[CompactionResult[M]]:
        """Compact whatever the size.

        Raises:
            ContextOverflowError: the list does not fit the window and cannot be made to.
        """
        if keep_recent_tokens is not None and keep_recent_tokens < 0:
            raise ConfigurationError(f"keep_recent_tokens={keep_recent_tokens} must not be negative")
        yield from self._catch_up(before_paying=True)
        yield from self._tell_missing_pins(call)
        others_end = yield from self._wait_for_others()
        is_aborted: bool = yield IsAborted()
        snapshot = self._look(call)
        record = snapshot.record
        if is_aborted:
            return self._as_it_stands(snapshot, CompactionOutcome.ABORTED)
        is_done = record is not None and record.seen_runs == snapshot.history.run_count and snapshot.fits_window
        if keep_recent_tokens is None and is_done:
            # Compacted already, and nothing was said since: who waited for that gets it, who asks again is told.
            is_shared = others_end == "settled"
            outcome = CompactionOutcome.COMPACTED if is_shared else CompactionOutcome.NOTHING_TO_COMPACT
            return self._as_it_stands(snapshot, outcome)

        def order(now: Snapshot[M], budget: Budget) -> Order:
            keep, turns = keep_recent_tokens, 0
            if keep is None:
                keep, turns = min(budget.keep, int(now.tokens * MANUAL_KEEP_RATIO)), budget.keep_turns
            return Order(reason=CompactionReason.MANUAL, keep=keep, turns=turns, focus=focus, must_fit=True)

        _, result = yield from self._compacted(call, order)
        return result

    def recover(self, call: Call[M], error: BaseException) -> Flow[LastSent[M]]:
        """Return a view to send after an error the host caught; raise `error` itself when no other view cures it.

        Raises:
            ContextOverflowError: nothing smaller is valid.
        """
        if self._is_of_another_model(error, call):
            raise error
        return (yield from self._recovered(call, error, self._conversation.last_sent))

    def call(self, call: Call[M], read: Callable[[object], Message | None]) -> Flow[object]:
        """Transform and send; on an overflow compact and send once more.

        Args:
            read: Reads a response into an assistant message, for its usage and how it ended.
        """
        seen = glance(self._conversation, self._shared, call.messages, call.options)
        sent = seen or (yield from self.transform(call))
        first, sent = yield from self._send(call, sent)
        if isinstance(first, Answered):
            answer = self._taken(first.value, sent, read)
            if answer is None or not self._is_cut_short(answer, sent, call):
                return first.value
            return (yield from self._sent_again(call, first.value, answer, read))
        sent = yield from self._recovered(call, first.error, sent)
        second, sent = yield from self._send(call, sent)
        if isinstance(second, Answered):
            self._taken(second.value, sent, read)
            return second.value
        info = self._overflow(second.error, sent.key.model)
        if info is None:
            raise second.error
        learn_from_overflow(self._conversation, self._shared, call, self._look(call), sent, info)
        snapshot = self._look(call)
        order = Order(reason=CompactionReason.OVERFLOW, keep=0)
        raise self._compaction(call, snapshot, self._budget(snapshot), order).overflow_error() from second.error

    def _send(self, call: Call[M], sent: LastSent[M]) -> Flow[tuple[Answered | Failure, LastSent[M]]]:
        """Send a view, and once more without its reasoning where the provider refuses that; return what was sent last too."""
        answer: Answered | Failure = yield Send(sent.view)
        if isinstance(answer, Failure) and is_reasoning_refusal(answer.error):
            bare = self._without_reasoning(call, sent)
            if bare is not None:
                answer, sent = (yield Send(bare.view)), bare
        return answer, sent

    # -- recovery

    def _without_reasoning(self, call: Call[M], refused: LastSent[M] | None) -> LastSent[M] | None:
        """The view without any reasoning there is so far, from now on; None where the refused one held none."""
        before = refused.unmerged if refused else self._look(call).view
        self._conversation.reasoning.refuse(call.model or self._shared.model)
        self._conversation.frame = None
        snapshot = self._look(call)
        if snapshot.view == before:
            return None
        logger.warning(
            "session %s: the provider refused the reasoning that was sent: going on without it", self._conversation.id
        )
        return self._hand_out(snapshot)

    def _recovered(self, call: Call[M], error: BaseException, sent: LastSent[M] | None) -> Flow[LastSent[M]]:
        """Compact harder after `error` rejected what was sent, or leave out the reasoning; raise it when neither is a cure."""
        if is_reasoning_refusal(error):
            bare = self._without_reasoning(call, sent)
            if bare is None:
                raise error
            return bare
        settings = self._shared.settings_for(call)
        info = _parsed(error, settings.overflow_patterns)
        if info is None or not info.is_recoverable or not settings.compact_on_overflow:
            raise error
        yield from self._catch_up(before_paying=True)
        others_end = yield from self._wait_for_others()
        if info.is_bytes:
            return (yield from self._lightened(call, error, sent, info.limit_bytes))
        if not self._is_of_another_model(error, call):  # a `send` may fall back to another model by itself
            learn_from_overflow(self._conversation, self._shared, call, self._look(call), sent, info)
        snapshot = self._look(call)
        budget = self._budget(snapshot)
        if (others_end == "settled" or _is_another_view(snapshot, sent)) and snapshot.tokens <= budget.trigger:
            return self._hand_out(snapshot)
        try:
            attempt, result = yield from self._compacted(call, _emergency(others_end, must_fit=True))
        except ContextOverflowError as unfit:
            raise unfit from error
        if result.outcome is not CompactionOutcome.COMPACTED or attempt.last_sent is None:
            raise error
        return attempt.last_sent

    def _lightened(
        self, call: Call[M], error: BaseException, sent: LastSent[M] | None, limit_bytes: int | None
    ) -> Flow[LastSent[M]]:
        """Leave media out after `error` rejected a request for its bytes, and remember its size; raise it if there are none."""
        snapshot = self._look(call)
        if _is_another_view(snapshot, sent):
            return self._hand_out(snapshot)
        refused = self._chars(snapshot)
        attempt, result = yield from self._compacted(call, _lightening(limit_bytes))
        if result.outcome is not CompactionOutcome.COMPACTED or attempt.last_sent is None:
            raise error
        limit = refused if limit_bytes is None else chars_within(limit_bytes)
        self._conversation.cooldown.most_chars = min(limit, refused - 1)
        return attempt.last_sent

    def _sent_again(
        self, call: Call[M], response: object, answer: Message, read: Callable[[object], Message | None]
    ) -> Flow[object]:
        """Compact and send once more, because the window cut the answer short; the short answer where that is no better."""
        call = replace(call, cut_at=context_tokens(answer.usage) if answer.usage is not None else None)
        yield from self._catch_up(before_paying=True)
        others_end = yield from self._wait_for_others()
        attempt, result = yield from self._compacted(call, _emergency(others_end, must_fit=False))
        self._conversation.cooldown.has_overflowed = False
        if result.outcome is not CompactionOutcome.COMPACTED or attempt.last_sent is None:
            return response
        second, sent = yield from self._send(call, attempt.last_sent)
        if isinstance(second, Failure):
            logger.warning("the answer stays cut short: sending again failed (%s)", type(second.error).__name__)
            return response
        self._note_limit(call, answer, self._taken(second.value, sent, read))
        return second.value

    def _note_limit(self, call: Call[M], first: Message, second: Message | None) -> None:
        """Remember the length at which the model's answers end: more room for the answer did not make it longer."""
        if second is None or second.stop_reason != "length" or first.usage is None or second.usage is None:
            return
        if first.usage.output_tokens == second.usage.output_tokens > 0:
            self._shared.answer_limits[call.model or self._shared.model] = second.usage.output_tokens

    def _is_cut_short(self, answer: Message, sent: LastSent[M], call: Call[M]) -> bool:
        settings, limit = (
            self._shared.settings_for(call),
            self._shared.answer_limits.get(call.model or self._shared.model),
        )
        if answer.stop_reason == "length" and answer.usage is not None and answer.usage.output_tokens == limit:
            return False
        requested = call.max_output_tokens or settings.max_output_tokens
        window = sent.budget.window if sent.budget is not None else None
        return settings.compact_on_overflow and is_cut_by_window(answer, requested=requested, window=window)

    def _is_of_another_model(self, error: BaseException, call: Call[M]) -> bool:
        """Whether an error names a model other than this call's: one used earlier in this conversation, or one the tables know.

        Any other name may be a router's alias for the same model.
        """
        asked, named = call.model or self._shared.model, _named_model(error)
        if asked is None or named is None or same_model(named, asked):
            return False
        return named in self._conversation.sizes.models or bool(find_window(named) and find_window(asked))

    # -- parts

    def _look(self, call: Call[M]) -> Snapshot[M]:
        return look(self._conversation, self._shared, call)

    def _budget(self, snapshot: Snapshot[M]) -> Budget:
        """The budget of the model's window; of the present size where the window is unknown."""
        return snapshot.budget or self._shared.find_settings(snapshot.model).budget(max(snapshot.tokens, 1))

    def _chars(self, snapshot: Snapshot[M]) -> int:
        return view_chars(snapshot, snapshot.projection)

    def _is_too_heavy(self, snapshot: Snapshot[M]) -> bool:
        """Whether a view is larger than what the provider refused for its bytes, or said to refuse."""
        most = self._conversation.cooldown.most_chars
        return most is not None and self._chars(snapshot) > most

    def _timed(self, call: Call[M]) -> Flow[Call[M]]:
        """Return the call with the time since the last one, if a trigger may ask for that."""
        if self._shared.goes_by_size:
            return call
        now: Instant = yield Now()
        last, self._conversation.called_at = self._conversation.called_at, now
        return replace(call, seconds_since_last_call=now.seconds_since(last)) if last is not None else call

    def _reason_due(self, snapshot: Snapshot[M], call: Call[M]) -> tuple[CompactionReason | None, Due | None]:
        """Return why a compaction is due, or None, with the trigger's answer."""
        settings = self._shared.settings_for(call)
        if self._conversation.cooldown.has_overflowed and settings.compact_on_overflow:
            return CompactionReason.OVERFLOW, None
        if snapshot.budget is None or not settings.auto_compact or settings.is_subagent:
            return None, None
        due = settings.effective_trigger.due(snapshot)
        return (CompactionReason.THRESHOLD if due else None), due

    def _reason_to_wait(self, snapshot: Snapshot[M], reason: CompactionReason) -> str:
        is_threshold = reason is CompactionReason.THRESHOLD
        return self._conversation.cooldown.reason_to_wait(snapshot) if is_threshold else ""

    def _hand_out(self, snapshot: Snapshot[M]) -> LastSent[M]:
        return remember_sent(self._conversation, snapshot)

    def _as_it_stands(self, snapshot: Snapshot[M], outcome: CompactionOutcome) -> CompactionResult[M]:
        record = snapshot.record
        is_new = outcome is CompactionOutcome.COMPACTED and record is not None
        return CompactionResult(
            messages=self._hand_out(snapshot).unmerged,
            record=record,
            outcome=outcome,
            reason=CompactionReason.MANUAL,
            tokens_before=record.tokens_before if record and is_new else snapshot.tokens,
            tokens_after=snapshot.tokens,
        )

    def _taken(self, response: object, sent: LastSent[M], read: Callable[[object], Message | None]) -> Message | None:
        """Take in what an answer says of its call; return the reading.

        An answer may say that the input overflowed although it was accepted: then the next call compacts first. What a
        stream says is taken in chunk by chunk, as it is read.
        """
        if isinstance(response, GuardedStream | GuardedAsyncStream):
            response.on_chunk = lambda chunk: self._take_chunk(chunk, sent, read)
            return None
        answer = read_quietly(read, response)
        if answer is not None and answer.usage is not None and answer.stop_reason not in ("error", "aborted"):
            report_usage(self._conversation, self._shared, answer.usage, sent, answer.model)
            learn_from_answer(self._shared, sent.key.model, answer, sent.budget)
        # A plain text is what the model wrote, and may speak of overflows without being one.
        if not isinstance(response, str) and self._overflow(response, sent.key.model) is not None:
            self._conversation.cooldown.has_overflowed = True
        return answer

    def _take_chunk(self, chunk: object, sent: LastSent[M], read: Callable[[object], Message | None]) -> None:
        """Take in a chunk of a stream; those that tell nothing of usage or ending are passed over unread."""
        if read(chunk) is not None:
            with self._conversation.lock:
                self._taken(chunk, sent, read)

    def _overflow(self, evidence: object, model: str | None) -> OverflowInfo | None:
        """What an error or a response says of an overflow of the context; None when it is something else."""
        info = _parsed(evidence, self._shared.find_settings(model).overflow_patterns)
        return info if info is not None and info.kind == "context_overflow" else None

    def _skip(self, snapshot: Snapshot[M], reason: CompactionReason, why: str) -> Flow[None]:
        yield Emit(CompactionSkipped(session_id=self._conversation.id, reason=reason, why=why, tokens=snapshot.tokens))

    def _tell_missing_pins(self, call: Call[M]) -> Flow[None]:
        """Tell of messages that were pinned before a list had them, and that this list does not have either."""
        conversation = self._conversation
        if not conversation.records.unseen_pins:
            return
        history = self._look(call).history
        digests = {message_digest(history.piece(index).message) for index in range(history.piece_count)}
        unseen, conversation.records.unseen_pins = conversation.records.unseen_pins, []
        count = sum(not digests.issuperset(pinned) for pinned in unseen)
        if count:
            logger.warning("session %s: the list has not %d of the messages that were pinned", conversation.id, count)
            yield Emit(PinMissing(session_id=conversation.id, count=count))

    # -- one at a time

    def _compaction(self, call: Call[M], snapshot: Snapshot[M], budget: Budget, order: Order) -> Compaction[M]:
        from compaction_hooks.engine.compaction import (
            Compaction,  # a third of the package, needed only when something is due
        )

        return Compaction(self._conversation, self._shared, call, self._verified(call, snapshot), budget, order)

    def _compacted(self, call: Call[M], order: OrderFor[M]) -> Flow[tuple[Compaction[M], CompactionResult[M]]]:
        """Compact; once more when the host changed the history meanwhile, and then without a model, which takes no time."""
        attempt, result = yield from self._led(call, order)
        for may_ask in (True, False):
            if attempt.is_outdated:
                attempt, result = yield from self._led(call, order, may_ask=may_ask)
        return attempt, result

    def _led(
        self, call: Call[M], order: OrderFor[M], *, may_ask: bool = True
    ) -> Flow[tuple[Compaction[M], CompactionResult[M]]]:
        """Lead an attempt on which other callers of this conversation wait."""
        self._conversation.drop_missing()
        snapshot = self._look(call)
        budget = self._budget(snapshot)
        ordered = order(snapshot, budget)
        with self._flight() as flight:
            start: Instant = yield Now()
            yield Emit(_started(self._conversation.id, snapshot, ordered))
            # Read again only now: whoever was told may have taken time, in which the host wrote into its messages.
            attempt = self._compaction(call, snapshot, budget, replace(ordered, may_ask=ordered.may_ask and may_ask))
            result = yield from attempt.run(start)
            flight.done.set_result(_END[result.outcome])
        return attempt, result

    def _verified(self, call: Call[M], snapshot: Snapshot[M]) -> Snapshot[M]:
        """The same snapshot, with every message read again: what was changed in place is noticed before it is summarised."""
        conversation, messages = self._conversation, snapshot.messages
        history = conversation.reader.verify(snapshot.history, messages)
        if history is snapshot.history:
            return snapshot
        conversation.history = history
        return self._look(call)

    @contextmanager
    def _flight(self) -> Generator[Flight]:
        flight = self._conversation.flight = Flight()
        try:
            yield flight
        except ContextOverflowError:
            flight.done.set_result("failed")
            raise
        finally:
            if self._conversation.flight is flight:
                self._conversation.flight = None
            if not flight.done.done():
                flight.done.set_result("aborted")

    def _wait_for_others(self) -> Flow[FlightEnd | None]:
        """Let a compaction under way come to its end first; None when there was none."""
        end: FlightEnd | None = None
        while self._conversation.flight is not None:
            end = yield Wait(self._conversation.flight)
            if end != "settled":
                break
        return end

    # -- records from elsewhere

    def _catch_up(self, *, before_paying: bool) -> Flow[bool]:
        """Exchange records with the store; return whether it need not be asked again in this call."""
        if not self._shared.has_store:
            return True
        is_fresh: bool = yield from catch_up(self._conversation)
        if before_paying and not is_fresh:
            yield from ask_again(self._conversation)
        return is_fresh or before_paying


def _started(session_id: str, snapshot: Snapshot[M], order: Order) -> CompactionStarted:
    """Return the event that tells of an attempt which begins now."""
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


def _parsed(evidence: object, patterns: Sequence[str]) -> OverflowInfo | None:
    from compaction_hooks.overflow import parse_overflow  # its patterns take as long to compile as all others

    return parse_overflow(evidence, patterns=patterns)


def _named_model(error: BaseException) -> str | None:
    """The model an error says it is about, as litellm's (`model`) and pydantic-ai's (`model_name`) do."""
    try:
        names = (getattr(error, "model", None), getattr(error, "model_name", None))
    except Exception:  # noqa: BLE001 - properties of foreign errors may raise anything
        return None
    return next((name for name in names if isinstance(name, str)), None)


def _automatic(
    reason: CompactionReason, *, may_ask: bool, must_fit: bool = False, due: Due | None = None
) -> OrderFor[Any]:
    """The order that nobody gave by hand."""
    return lambda snapshot, budget: Order(
        reason=reason,
        keep=_keep(snapshot, budget, reason),
        turns=0 if reason is CompactionReason.OVERFLOW else budget.keep_turns,
        may_ask=may_ask,
        must_fit=must_fit,
        due=due,
    )


def _emergency(others_end: FlightEnd | None, *, must_fit: bool) -> OrderFor[Any]:
    """The order that keeps less, because the provider said that the context is too large."""
    return _automatic(CompactionReason.OVERFLOW, may_ask=others_end != "failed", must_fit=must_fit)


def _lightening(limit_bytes: int | None = None) -> OrderFor[Any]:
    """The order that leaves media out, because the provider refuses so many bytes; without a limit half of them.

    Half, so that the next images change nothing in the part of the view that the provider has cached.
    """
    return lambda _, __: Order(reason=CompactionReason.OVERFLOW, keep=0, only_media=True, limit_bytes=limit_bytes)


def _is_another_view(snapshot: Snapshot[M], sent: LastSent[M] | None) -> bool:
    """Whether a compaction since, here or in another worker, replaced the view that was rejected."""
    return sent is not None and snapshot.key.record_id != sent.key.record_id


def _keep(snapshot: Snapshot[M], budget: Budget, reason: CompactionReason) -> int:
    """Recent tokens to keep. After an overflow the context is larger than it seems, so no more than a part of what it seems."""
    if reason is CompactionReason.OVERFLOW:
        return min(budget.emergency_keep, int(snapshot.tokens * KEEP_RECENT_RATIO))
    return budget.keep


_END: dict[CompactionOutcome, FlightEnd] = {
    CompactionOutcome.COMPACTED: "settled",
    CompactionOutcome.NOTHING_TO_COMPACT: "failed",
    CompactionOutcome.NO_GAIN: "failed",
    CompactionOutcome.FAILED: "failed",
    CompactionOutcome.ABORTED: "aborted",
}
