"""One attempt to compact, as a flow: down the rungs until a view passes the check, or a reason why none does."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Generic

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.cooldown import Unfit
from compaction_hooks.engine.measuring import Shared, Standing, look, note_handed_out
from compaction_hooks.engine.persistence import ask_again, write
from compaction_hooks.engine.sizes import HandedOut
from compaction_hooks.engine.summarizing import SummaryFailed, summarize, summarize_by_rule
from compaction_hooks.errors import ContextOverflowError, described
from compaction_hooks.events import CompactionFailed, CompactionFinished, CompactionSkipped, CompactionStarted
from compaction_hooks.files import ask_host_files
from compaction_hooks.messages import M, Usage
from compaction_hooks.runtime.effects import Aborted, Emit, Flow, Instant, Now, Save, Work
from compaction_hooks.strategies.cut_point import turns_tokens
from compaction_hooks.strategies.drafts import (
    Draft,
    breach,
    clearing_record,
    drafted,
    largest_fixed_part,
    last_drafts,
    lighter_draft,
    objection,
    shortening_record,
    summary_record,
)
from compaction_hooks.strategies.planning import Summarized, SummaryPlan, dropped_marker, plan_clearing, plan_summary
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO, Budget
from compaction_hooks.values import dataclass
from compaction_hooks.view.record import CompactionReason, CompactionRecord
from compaction_hooks.view.reductions import Reducible
from compaction_hooks.view.snapshot import Situation

logger = logging.getLogger("compaction_hooks")


class CompactionOutcome(StrEnum):
    """How an attempt to compact ended."""

    COMPACTED = "compacted"
    NOTHING_TO_COMPACT = "nothing to compact"
    NO_GAIN = "no gain"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult(Generic[M]):
    """What an attempt to compact gave.

    Attributes:
        messages: A new list to store or send; the list as it stood when nothing was compacted.
        record: The record now in force, or None.
        outcome: How it ended; only "compacted" changed anything.
        reason: What was the occasion.
        tokens_before, tokens_after: Size of the context in tokens, by estimate.
    """

    messages: list[M]
    record: CompactionRecord | None
    outcome: CompactionOutcome
    reason: CompactionReason
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked of an attempt.

    Attributes:
        keep: Recent tokens to keep.
        turns: The user's last turns to keep whole, if they are more.
        may_ask: Whether the summariser may be asked; not when another caller's attempt just failed.
        must_fit: Whether a list that cannot be made to fit is an error; otherwise it is handed out unchanged, loudly.
        only_media: Whether the request was too large in bytes: media are left out, and nothing else is done.
        limit_bytes: What the provider takes, as far as it says so.
    """

    reason: CompactionReason
    keep: int
    turns: int = 0
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None


class Compaction(Generic[M]):
    """One attempt on one standing."""

    def __init__(
        self, conversation: Conversation[M], shared: Shared, standing: Standing[M], budget: Budget, order: Order
    ) -> None:
        self._conversation = conversation
        self._shared = shared
        self._standing = standing
        self._order = order
        keep = max(order.keep, math.ceil(standing.gauge.ratio * turns_tokens(standing.history, order.turns)))
        self._situation = Situation(
            history=standing.history,
            record=standing.record,
            projection=standing.projection,
            budget=budget.keeping(keep),
            gauge=standing.gauge,
            reason=order.reason,
            pressure=standing.pressure,
            keep=keep,
            settings=shared.settings,
            format=conversation.format,
            estimator=conversation.estimator,
            user_pins=dict(conversation.user_pins),
            host_files=ask_host_files(shared.host_files, conversation.host_files),
            learned=conversation.saved_calibration(standing.measured.model),
            binds_reasoning=conversation.reasoning.binds(standing.measured.model, conversation.format),
        )
        self._has_waited = False
        self._failure: SummaryFailed | None = None
        self._spent: Usage | None = None
        self._summary: str | None = None
        self._objections: list[str] = []
        self._drafts: list[Draft[M]] = []
        self.handed_out: HandedOut[M] | None = None
        """What the caller of `run` gets to send, once it has ended."""
        self.is_outdated = False
        """Whether the host changed the history meanwhile, so that the new record does not make it fit."""

    def run(self, start: Instant) -> Flow[CompactionResult[M]]:
        """Go down the rungs.

        Args:
            start: When the attempt began.

        Raises:
            ContextOverflowError: no rung makes it fit, and the order says it must.
        """
        at = start.utc.strftime("%Y-%m-%dT%H:%M:%SZ")
        if self._order.only_media:
            return (yield from self._leave_media_out(start, at))
        clearable = plan_clearing(self._situation)
        # Who compacts by hand asks for a summary, perhaps with a focus; clearing alone would not be one.
        if not self._is_manual and self._could_suffice(clearable):
            cleared = self._clearing(clearable, at)
            if cleared is not None and cleared.tokens <= self._budget.target and self._passes(cleared):
                return (yield from self._settle(cleared, start))
        plan = plan_summary(self._situation)
        if plan is not None and not self._may_ask(start) and self._standing.fits_window and not self._is_overflow:
            return (yield from self._stay(start, CompactionOutcome.FAILED, "breaker open"))
        if plan is not None and self._may_ask(start):
            self._has_waited = True
            answer = yield from summarize(self._situation, plan, self._order.focus)
            if isinstance(answer, Aborted):
                return (yield from self._stay(start, CompactionOutcome.ABORTED, "aborted"))
            if self._shared.has_store:  # another worker may have removed what the summary goes on from
                yield from ask_again(self._conversation)
                self._conversation.drop_missing()
            draft = self._judge(plan, answer, start, at)
            if draft is not None:
                return (yield from self._settle(draft, start))
            if self._failure is not None and self._standing.fits_window and not self._is_overflow:
                return (yield from self._fail(start))
        dropping: CompactionRecord | None = None
        if plan is not None:
            self._has_waited = True
            extracted: Summarized = yield Work(partial(_extracted, self._situation, plan))
            dropping = summary_record(self._situation, plan, extracted, at)
        fallback = self._best(self._without_a_model(clearable, dropping, at), plan)
        if fallback is not None:
            return (yield from self._settle(fallback, start))
        return (yield from self._give_up(plan, start, at))

    def _leave_media_out(self, start: Instant, at: str) -> Flow[CompactionResult[M]]:
        draft = lighter_draft(self._situation, self._order.limit_bytes, at)
        if draft is None or breach(self._situation, draft) is not None:
            return (yield from self._stay(start, CompactionOutcome.NOTHING_TO_COMPACT, "no media to leave out"))
        return (yield from self._settle(draft, start))

    @property
    def _budget(self) -> Budget:
        return self._situation.budget

    @property
    def _is_overflow(self) -> bool:
        return self._order.reason is CompactionReason.OVERFLOW

    @property
    def _is_manual(self) -> bool:
        return self._order.reason is CompactionReason.MANUAL

    def _may_ask(self, now: Instant) -> bool:
        if not self._order.may_ask or (self._is_known_unfit() and not self._is_manual):
            return False
        cooldown = self._shared.settings.breaker_cooldown_seconds
        return self._is_manual or self._conversation.breaker.allows(now.monotonic, cooldown)

    def _is_known_unfit(self) -> bool:
        unfit, standing = self._conversation.unfit, self._standing
        return (
            unfit is not None
            and unfit.log is standing.history.log
            and unfit.window == self._budget.window
            and not standing.fits_window
            and standing.pressure < unfit.until
        )

    # -- rungs

    def _could_suffice(self, clearable: Sequence[Reducible]) -> bool:
        """Whether the target could be reached by clearing these, if markers took nothing: if not, no draft need be made."""
        least = self._situation.estimated - sum(
            part.tokens + 1 for part in clearable
        )  # estimates of parts are rounded up
        return bool(clearable) and self._situation.gauge.tokens(least) <= self._budget.target

    def _clearing(self, clearable: Sequence[Reducible], at: str) -> Draft[M] | None:
        if not clearable:
            return None
        return drafted(self._situation, clearing_record(self._situation, clearable, at), clearable)

    def _judge(self, plan: SummaryPlan, answer: Summarized | SummaryFailed, now: Instant, at: str) -> Draft[M] | None:
        """Count the answer for or against the summariser; return the draft it gives when that passes.

        Where the summary alone takes it above the target, being sized as a whole and by samples, kept parts make up for that.
        """
        breaker = self._conversation.breaker
        if isinstance(answer, SummaryFailed):
            self._failure = answer
            self._spent = answer.usage
            breaker.record_failure(described(answer.error), self._shared.settings.breaker_failures, now.monotonic)
            logger.warning("summariser failed (%s)", described(answer.error))
            return None
        breaker.record_success()
        self._spent = answer.usage
        draft = drafted(self._situation, summary_record(self._situation, plan, answer, at))
        self._summary = answer.text
        passes = self._passes(draft)
        if passes and (draft.tokens <= self._budget.target or not plan.reaches_target):
            return draft
        shortened = self._shortened(draft, at)
        if shortened is None or not self._passes(shortened):
            return draft if passes else None
        return draft if passes and shortened.tokens > self._budget.target else shortened

    def _shortened(self, draft: Draft[M] | None, at: str) -> Draft[M] | None:
        """A draft, or the view in force, with its kept parts shortened."""
        record = shortening_record(self._situation, draft, at)
        return drafted(self._situation, record) if record is not None else None

    def _without_a_model(
        self, clearable: Sequence[Reducible], dropping: CompactionRecord | None, at: str
    ) -> Iterator[Draft[M]]:
        """The drafts of the rungs that ask nobody, the gentlest first; the last ones drop what a plan covers."""
        cleared = self._clearing(clearable, at)
        if cleared is not None:
            yield cleared
        shortened = self._shortened(cleared, at)
        if shortened is not None:
            yield shortened
        if dropping is not None:
            dropped = drafted(self._situation, dropping)
            yield dropped
            smaller = self._shortened(dropped, at)
            if smaller is not None:
                yield smaller

    def _best(self, drafts: Iterator[Draft[M]], plan: SummaryPlan | None) -> Draft[M] | None:
        """The gentlest draft that reaches the target; else the smallest that passes and keeps no more than it must."""
        passing: list[Draft[M]] = []
        for draft in drafts:
            if self._passes(draft):
                if draft.tokens <= self._budget.target:
                    return draft
                keeps_least = plan is None or draft.record.covered_runs == plan.cut
                (passing if keeps_least else self._drafts).append(draft)
        return min(passing, key=self._rank, default=None)

    def _passes(self, draft: Draft[M]) -> bool:
        why = objection(self._situation, draft, self._budget.trigger)
        if why is not None:
            self._objections.append(why)
            self._drafts.append(draft)
        return why is None

    def _last_rung(self, bases: Iterable[Draft[M] | None], at: str) -> Iterator[Draft[M]]:
        """The drafts that shorten what was said too."""
        for base in bases:
            for draft in last_drafts(self._situation, base, at):
                self._drafts.append(draft)
                yield draft

    def _rank(self, draft: Draft[M]) -> tuple[int, bool, int]:
        """Among drafts above the target: what keeps least, for the next call needs room; a model's summary; the smallest."""
        return -draft.record.covered_runs, draft.record.summary != self._summary, draft.tokens

    # -- ends

    def _settle(self, draft: Draft[M], start: Instant) -> Flow[CompactionResult[M]]:
        """Put the record in force, store it, tell."""
        conversation = self._conversation
        if draft.record.parent in conversation.undone:
            return (yield from self._discard(start))
        conversation.add_own_record(draft.record)
        if self._may_be_answered:
            conversation.reasoning.stale_runs = draft.record.seen_runs + 1
        self._offer(draft)
        if not self._has_waited:
            conversation.in_force = draft.record.id  # every message was read again, and nobody had a turn since
        rest_until = int(draft.record.tokens_after * (1 + MINIMUM_GROWTH_RATIO))
        conversation.rest(rest_until, "no progress", self._budget.window)
        standing = look(conversation, self._shared, self._standing.call)
        self.handed_out = note_handed_out(conversation, standing)
        view = self.handed_out.unmerged
        if self._shared.has_store:
            conversation.unwritten.append(Save(conversation.id, draft.record.id, draft.record.to_json()))
            conversation.is_loaded = False  # another worker may have made one at the same time: the next call looks
            yield from write(conversation)
        record = standing.record  # another worker's, if that was made of the same messages and comes first
        if record is None or (record is not draft.record and standing.pressure > self._budget.trigger):
            self.is_outdated, self._standing = standing.pressure > self._budget.trigger, standing
            return (yield from self._stay(start, CompactionOutcome.NO_GAIN, "the history was changed meanwhile"))
        end: Instant = yield Now()
        event = self._finished(record, standing, end.seconds_since(start))
        logger.info("%s", event)
        yield Emit(event)
        return self._result(view, CompactionOutcome.COMPACTED, record)

    @property
    def _may_be_answered(self) -> bool:
        """Whether the view that this compaction replaces may be with the model: an answer to come belongs to that view."""
        sent = self._conversation.handed_out
        return (
            not self._is_overflow
            and sent is not None
            and sent.measured.grew_into(self._standing.measured)
            and sent.measured.piece_count == self._standing.measured.piece_count
        )

    def _offer(self, draft: Draft[M]) -> None:
        """Spare the conversation making the view once more, unless that depends on what is asked by now."""
        if draft.projection.favoured is None:
            log = self._standing.history.log
            self._conversation.offered = (draft.record.id, log, log.replaced), draft.projection

    def _discard(self, start: Instant) -> Flow[CompactionResult[M]]:
        """What was made continues a compaction that was undone meanwhile: it is not put in force."""
        self._standing = look(self._conversation, self._shared, self._standing.call)
        self.is_outdated = not self._standing.fits_window
        return (yield from self._stay(start, CompactionOutcome.NO_GAIN, "undone"))

    def _stay(self, start: Instant, outcome: CompactionOutcome, why: str) -> Flow[CompactionResult[M]]:
        end: Instant = yield Now()
        yield Emit(
            CompactionSkipped(
                session_id=self._conversation.id,
                reason=self._order.reason,
                why=why,
                tokens=self._standing.pressure,
                duration_seconds=end.seconds_since(start),
                usage=self._spent,
            )
        )
        return self._result(self._unchanged(), outcome, None)

    def _fail(self, start: Instant) -> Flow[CompactionResult[M]]:
        yield from self._tell_failure(start)
        return self._result(self._unchanged(), CompactionOutcome.FAILED, None)

    def _give_up(self, plan: SummaryPlan | None, start: Instant, at: str) -> Flow[CompactionResult[M]]:
        """No rung passed the trigger: keep what fits the window, else take a draft that does, else say so loudly."""
        if self._standing.fits_window and not self._is_overflow:
            rest_until = int(self._standing.pressure * (1 + MINIMUM_GROWTH_RATIO))
            self._conversation.rest(rest_until, "no gain", self._budget.window)
            if plan is None and not self._objections:
                return (yield from self._stay(start, CompactionOutcome.NOTHING_TO_COMPACT, "nothing to summarise"))
            return (
                yield from self._stay(
                    start, CompactionOutcome.NO_GAIN, self._objections[-1] if self._objections else "no gain"
                )
            )
        drafts = sorted(self._drafts, key=self._rank)
        for draft in chain(drafts, self._last_rung(drafts or [None], at)):
            if objection(self._situation, draft, self._budget.window) is None:
                return (yield from self._settle(draft, start))
        until = int(self._standing.pressure * (1 + MINIMUM_GROWTH_RATIO))
        self._conversation.unfit = Unfit(self._standing.history.log, until, self._budget.window)
        error = self.unfit()
        yield from self._tell_failure(start, error)
        if not self._order.must_fit:
            return self._result(self._unchanged(), CompactionOutcome.FAILED, None)
        raise error

    def unfit(self) -> ContextOverflowError:
        """Return the error that names the part that cannot shrink."""
        part, size = largest_fixed_part(self._situation)
        what = "what is sent beside the list (system prompt, tools)" if part == "hidden prefix" else f"the {part}"
        smallest = min([self._standing.pressure, *(draft.tokens for draft in self._drafts)])
        size, window = min(size, smallest), self._budget.window
        return ContextOverflowError(
            f"the conversation cannot be made to fit {window:,} tokens: the smallest valid request has about "
            f"{smallest:,}, of which {what} takes about {size:,}; shorten {what} or use a model with a larger window",
            tokens=smallest,
            window=window,
            part=part,
        )

    # -- events

    def _unchanged(self) -> list[M]:
        self.handed_out = note_handed_out(self._conversation, self._standing)
        return self.handed_out.unmerged

    def _result(
        self, messages: list[M], outcome: CompactionOutcome, record: CompactionRecord | None
    ) -> CompactionResult[M]:
        before = self._standing.pressure
        return CompactionResult(
            messages=messages,
            record=record or self._standing.record,
            outcome=outcome,
            reason=self._order.reason,
            tokens_before=before,
            tokens_after=record.tokens_after if record else before,
        )

    def _finished(self, record: CompactionRecord, after: Standing[M], seconds: float) -> CompactionFinished:
        return CompactionFinished(
            session_id=self._conversation.id,
            reason=self._order.reason,
            tokens_before=self._standing.pressure,
            tokens_after=record.tokens_after,
            messages_before=len(self._standing.view),
            messages_after=len(after.view),
            compacted_messages=record.compacted_message_count,
            unseen_messages=record.unseen_message_count,
            summary_messages=1 if record.rendered else 0,
            duration_seconds=seconds,
            usage=self._spent,
            used_fallback=self._failure is not None,
            left_out=sum(item.kind == "media" for item in after.projection.reductions),
            record=record,
        )

    def _tell_failure(self, start: Instant, error: BaseException | None = None) -> Flow[None]:
        end: Instant = yield Now()
        cause = error or (self._failure.error if self._failure else ContextOverflowError("it does not fit"))
        event = CompactionFailed(
            session_id=self._conversation.id,
            reason=self._order.reason,
            error=described(cause),
            tokens=self._standing.pressure,
            is_over_window=not self._standing.fits_window,
            is_breaker_open=self._conversation.breaker.opened_at is not None,
            duration_seconds=end.seconds_since(start),
            usage=self._spent,
        )
        if event.is_over_window:
            logger.error("%s", event)
        yield Emit(event)


def started(session_id: str, standing: Standing[M], reason: CompactionReason) -> CompactionStarted:
    """Return the event that tells of an attempt which begins now."""
    budget = standing.budget
    return CompactionStarted(
        session_id=session_id,
        reason=reason,
        tokens_before=standing.pressure,
        messages_before=len(standing.view),
        trigger_tokens=budget.trigger if budget else None,
        context_window=budget.window if budget else None,
    )


def _extracted(now: Situation[M], plan: SummaryPlan) -> Summarized:
    """Return what replaces messages that are dropped without a model: a line that says so, and what can be extracted by rule."""
    marker = dropped_marker(plan)
    messages = (*plan.history, *plan.prefix)
    text = summarize_by_rule(messages, plan.previous_summary, plan.allowance - now.text_tokens(marker))
    return Summarized(f"{marker}\n\n{text}", None, unseen=len(messages))
