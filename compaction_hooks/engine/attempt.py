"""One attempt to compact, as a flow: the strategies in turn, until a candidate is accepted or none is left.

1. A candidate changes nothing: only `_commit` makes a record active, and it does so once an attempt, at its end.
2. What a summarizer answered is paid for and counted, whatever becomes of it; a failure counts for the breaker.
3. A preview commits nothing, and its failures close no breaker: it works on a copy of the cooldown.
4. If the host changed what is covered meanwhile, nothing is committed (`is_outdated`), and the attempt is made again.
5. If the host changed its list while its functions were asked (`host_answers.py`), the attempt begins anew with their answers:
   nothing was paid for yet.
6. A veto that counts ends the attempt; one that is not of a compaction by hand is kept (`cooldown.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Generic

from compaction_hooks.engine.background import Draft
from compaction_hooks.engine.call import Call, Order, find_budget
from compaction_hooks.engine.choice import Choice
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.cooldown import Breaker, Pause, UnfitList
from compaction_hooks.engine.endings import finished_event, may_shorten, unfit_error
from compaction_hooks.engine.host_answers import HostAnswers
from compaction_hooks.engine.in_place import find_last_call
from compaction_hooks.engine.looking import learn_and_look
from compaction_hooks.engine.persistence import reload, write
from compaction_hooks.engine.planning import plan_compaction, plan_without_media, propose_without_media
from compaction_hooks.engine.records import warn_if_paid_again
from compaction_hooks.engine.result import CompactionOutcome, CompactionResult
from compaction_hooks.engine.sizes import MOST_REFUSALS, LastSent
from compaction_hooks.engine.summarizing import SummaryFailed, add_text, summarize
from compaction_hooks.events import CompactionFailed, CompactionSkipped
from compaction_hooks.foreign import describe_error
from compaction_hooks.history import UserRequest
from compaction_hooks.messages import M, Usage
from compaction_hooks.runtime.effects import Aborted, Emit, Flow, Instant, Now, Work
from compaction_hooks.strategies import AnyStrategy, Candidate, Goal, SummaryStrategy
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan
from compaction_hooks.telling import CompactionPlan, Told
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO, Budget
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.view_of import is_true

logger = logging.getLogger("compaction_hooks")


class Attempt(Generic[M]):
    """One attempt to compact: the strategies in turn, until a candidate is accepted."""

    def __init__(
        self,
        conversation: Conversation[M],
        call: Call[M],
        snapshot: Snapshot[M],
        order: Order,
    ) -> None:
        self._conversation = conversation
        self._queue = conversation.queue
        self._cooldown = copy(conversation.cooldown) if order.is_preview else conversation.cooldown
        self._call = call
        self._order = order
        self._begin(snapshot)
        self._has_waited = False
        self._fallback_reason = ""
        self._spent: Usage | None = None
        self.answers = order.answers or HostAnswers(
            conversation.id,
            (call.shared.tellers, conversation.tellers),
            call.settings.host_timeout_seconds,
            order.reason,
            order.focus,
            is_preview=order.is_preview,
        )
        """The host's answers, also for the attempt that repeats this one."""
        self.last_sent: LastSent[M] | None = None
        """The view for the caller of `run` to send, set when it ends."""
        self.is_outdated = False
        """Whether the host changed the history meanwhile, so that the new record does not make the view fit."""

    def _begin(self, snapshot: Snapshot[M]) -> None:
        """Begin with a list, without candidates."""
        self._snapshot = snapshot
        order, budget = self._order, find_budget(self._call, snapshot)
        if order.spares == "turn":  # a view that is still above the threshold is not worth its price
            budget = replace(budget, limit=budget.trigger)
        keep = order.keep_tokens(snapshot, budget)
        self._aim: Goal[M] = Goal(
            reason=order.reason,
            budget=budget.with_keep(keep).with_target(order.due.target_tokens if order.due else None),
            keep_tokens=keep,
            at="",
            tool_rules=self._call.settings.result_rules,
            told=Told(kept_tools=self._call.settings.kept_tools, sections=order.sections),
            limit_bytes=order.limit_bytes,
            end={"": None, "turn": snapshot.turn_start, "step": snapshot.history.run_count - 1}[order.spares],
        )
        self._choice = Choice(self._conversation.id, snapshot, self._aim)

    def run(self, start: Instant) -> Flow[CompactionResult[M]]:
        """Try the strategies in turn; accept the first candidate that reaches the target, else the best valid one.

        Args:
            start: When the attempt began.

        Raises:
            ContextOverflowError: nothing makes it fit, and the order says it must.
        """
        adopted = self._adopt(self._order.previewed) if self._order.previewed is not None else None
        if adopted is not None:
            return (yield from self._commit(adopted, start))
        vetoed = yield from self._ask_advice(start)
        if vetoed is not None:
            return vetoed

        choice = self._choice
        choice.goal = self._goal_at(start)
        if self._order.only_media:
            return (yield from self._drop_media(choice.goal, start))

        for strategy in self._strategies_to_try():
            if isinstance(strategy, SummaryStrategy):
                candidate = yield from self._request_summary(strategy, choice.goal, start)
                if isinstance(candidate, CompactionResult):
                    return candidate
            else:
                candidate = strategy.propose(self._snapshot, choice.goal)
            if choice.add(candidate, type(strategy).__name__):
                assert candidate is not None  # nothing else ends the search
                return (yield from self._commit(candidate, start))

        best = choice.find_best()
        if best is not None:
            return (yield from self._commit(best, start))
        return (yield from self._last_resort(start))

    def write_draft(self, draft: Draft, start: Instant) -> Flow[CompactionRecord | None]:
        """Ask for the summary of this attempt while the conversation goes on; return its record, or None. Nothing is made active.

        The host's list is not read again: it is another one by now.
        """
        answers, snapshot, running = self.answers, self._snapshot, draft.running
        plan_told: CompactionPlan | None = yield Work(partial(self.make_plan, start))
        if plan_told is None or "summarize" not in plan_told.steps:
            return None
        if answers.lacks_advice:
            yield from answers.ask_advice(plan_told, running)
        if answers.veto:
            self._cooldown.veto = UserRequest.of(snapshot.history)
            return None
        if answers.lacks_texts:
            yield from answers.ask_texts(snapshot, snapshot.messages, running)

        strategy = next(each for each in self._strategies_to_try() if isinstance(each, SummaryStrategy))
        goal = self._goal_at(start)
        plan: SummaryPlan | None = yield Work(partial(strategy.propose, snapshot, goal))
        draft.is_asked = plan is not None and plan.needs_model
        if plan is None or not plan.needs_model or self._refuses_native:
            return None
        answer = yield from self._ask_summary(plan, start)
        if not isinstance(answer, Summarized):
            return None
        made: Candidate[M] = yield Work(partial(strategy.from_summary, snapshot, goal, plan, answer))
        candidate = self._without_large_items(made)
        draft.fallback_reason = self._fallback_reason
        return candidate.record if candidate is not None else None

    def make_plan(self, start: Instant) -> CompactionPlan | None:
        """Return what the attempt would do; None if it would change nothing. Nothing is asked or changed."""
        goal = self._goal_at(start)
        if self._order.only_media:
            return plan_without_media(self._snapshot, goal)
        return plan_compaction(
            self._conversation.id,
            self._snapshot,
            goal,
            self._strategies_to_try(),
            may_ask=self._may_ask(start),
            shortens=may_shorten(self._call.settings),
        )

    def _goal_at(self, start: Instant) -> Goal[M]:
        """Return the goal of the first strategy, with the answers of the host so far."""
        told = self.answers.add_to(self._aim.told, self._snapshot)
        return replace(self._aim, at=start.utc.strftime("%Y-%m-%dT%H:%M:%SZ"), told=told)

    def _adopt(self, record: CompactionRecord) -> Candidate[M] | None:
        """Return the candidate of a record made earlier, if it still follows the active one and gives a good view."""
        history, active = self._snapshot.history, self._snapshot.record
        if record.parent != (active.id if active else None) or not is_true(history, record):
            return None
        candidate: Candidate[M] = Candidate(
            snapshot=self._snapshot, record=replace(record, seen_runs=history.run_count)
        )
        is_draft = not self._is_manual
        # In a large window more may be left; then the call asks for a summary of all that came since.
        if (is_draft and candidate.tokens > self._budget.trigger) or not self._choice.evaluate(candidate):
            return None
        self._spent = record.usage
        if is_draft:
            self._fallback_reason = self._conversation.background.fallback_reason
        return candidate

    @property
    def adopts(self) -> bool:
        """Whether the record that the order brings may become active."""
        return self._order.previewed is not None and self._adopt(self._order.previewed) is not None

    @property
    def _refuses_native(self) -> bool:
        """Whether the provider refuses the summaries that it makes itself."""
        refusals = self._conversation.sizes.counts_of(self._snapshot.model).native_refusals
        return refusals >= MOST_REFUSALS and self._snapshot.reading.issuer is not None

    @property
    def _budget(self) -> Budget:
        """The budget of the model's window, with what the order asks to keep and to reach."""
        return self._aim.budget

    def _strategies_to_try(self) -> Sequence[AnyStrategy]:
        """Return the strategies to try; if there must be a summary, those before the first one are skipped."""
        strategies = self._call.settings.effective_strategies
        summaries = [place for place, strategy in enumerate(strategies) if isinstance(strategy, SummaryStrategy)]
        return strategies[summaries[0] :] if self._order.needs_summary and summaries else strategies

    def _drop_media(self, goal: Goal[M], start: Instant) -> Flow[CompactionResult[M]]:
        candidate = propose_without_media(self._snapshot, goal)
        if candidate is None:
            return (yield from self._skip(start, CompactionOutcome.NOTHING_TO_COMPACT, "no media to leave out"))
        return (yield from self._commit(candidate, start))

    @property
    def _is_manual(self) -> bool:
        return self._order.reason is CompactionReason.MANUAL

    def _may_ask(self, now: Instant) -> bool:
        is_allowed = self._cooldown.breaker.allows(now.monotonic, self._call.settings.breaker_cooldown_seconds)
        known = self._cooldown.unfit_list
        is_unfit = known is not None and known.is_of(self._snapshot, self._budget.window)
        return self._order.may_ask and (self._is_manual or (is_allowed and not is_unfit))

    # -- candidates

    def _request_summary(
        self, strategy: SummaryStrategy, goal: Goal[M], start: Instant
    ) -> Flow[Candidate[M] | CompactionResult[M] | None]:
        """Request the summary for a strategy; return its candidate, or the result that ends the attempt."""
        self._has_waited = True
        if self.answers.lacks_texts:
            yield from self.answers.ask_texts(self._snapshot, self._call.messages, self._conversation.running)
            if self._begins_anew():
                return (yield from self.run(start))
        goal = replace(goal, told=self.answers.add_to(self._aim.told, self._snapshot))

        plan: SummaryPlan | None = yield Work(partial(strategy.propose, self._snapshot, goal))
        if plan is None:
            return None
        if not self._conversation.check_covered(self._snapshot, len({*plan.hosts})):
            self.is_outdated = True  # the earlier summary is no longer true: do not pay for its update
            return (yield from self._skip_outdated(start))

        if self._refuses_native:
            self._fallback_reason = "the provider refuses its own summaries"
            plan = replace(plan, needs_model=False)

        if not plan.needs_model:
            made: Candidate[M] | None = yield Work(
                lambda: strategy.from_summary(self._snapshot, goal, plan, add_text(plan, Summarized("", None)))
            )
            return made

        if not self._may_ask(start):
            return (
                (yield from self._skip(start, CompactionOutcome.FAILED, "breaker open"))
                if self._choice.can_wait
                else None
            )

        answer = yield from self._ask_summary(plan, start)
        if isinstance(answer, Aborted):
            return (yield from self._skip(start, CompactionOutcome.ABORTED, "aborted"))
        yield from reload(self._conversation)  # another worker may have undone the record that the summary builds on
        self._conversation.drop_missing()
        if isinstance(answer, SummaryFailed):
            return (yield from self._fail(start, answer.error)) if self._choice.can_wait else None
        self._choice.prefer(answer.text)
        # To repair a summary, all messages may be read.
        made = yield Work(partial(strategy.from_summary, self._snapshot, goal, plan, answer))
        return self._without_large_items(made)

    def _ask_summary(self, plan: SummaryPlan, start: Instant) -> Flow[Summarized | SummaryFailed | Aborted]:
        """Ask the summarizer for the summary of a plan; record what it cost, and whether it failed."""
        asked = self._snapshot, self._budget, self._call, plan, self.answers.find_focus(self._snapshot)
        last_call = find_last_call(self._conversation, self._call, self._order.reason, start)
        answer = yield from summarize(*asked, self._spend, self._conversation.id, last_call)
        if not isinstance(answer, Aborted):
            self._record_answer(answer, start)
        return answer

    def _ask_advice(self, start: Instant) -> Flow[CompactionResult[M] | None]:
        """Ask the host before a compaction that would change the view; return the result of a veto, or None."""
        asked_at, answers = self._snapshot, self.answers
        if answers.lacks_advice:
            self._has_waited = True
            plan: CompactionPlan | None = yield Work(partial(self.make_plan, start))
            if plan is None:
                return None
            yield from answers.ask_advice(plan, self._conversation.running)
            self._begins_anew()

        if not answers.veto or answers.overrules(self._snapshot):
            return None
        if not self._is_manual:
            self._cooldown.veto = UserRequest.of(asked_at.history)
        return (yield from self._skip(start, CompactionOutcome.VETOED, f"vetoed: {answers.veto}"))

    def _begins_anew(self) -> bool:
        """Begin with the list as it is now, if it changed while the host was asked; return whether it did."""
        is_same = self._conversation.check_shown(self._snapshot) and self._snapshot.is_current
        if not is_same:
            self._begin(self._take_snapshot())
        return not is_same

    def _without_large_items(self, candidate: Candidate[M] | None) -> Candidate[M] | None:
        """Return a candidate without its native items if these make it too large."""
        if candidate is None or candidate.view.items is None or self._choice.reject(candidate) is None:
            return candidate
        self._fallback_reason = "the provider's own summary is too large"
        return replace(candidate, record=replace(candidate.record, native=None))

    def _spend(self, usage: Usage | None) -> None:
        """Add the cost of an answer, which is paid whatever becomes of the summary; that of a preview too."""
        if usage is not None:
            self._spent = self._spent + usage if self._spent else usage
            self._conversation.summary_usage += usage

    def _record_answer(self, answer: Summarized | SummaryFailed, now: Instant) -> None:
        """Record a success or a failure of the summarizer, one in a later part too."""
        cooldown = self._cooldown
        if answer.error is not None:
            self._fallback_reason = why = describe_error(answer.error)
            limit = self._call.settings.breaker_failures
            cooldown.breaker = cooldown.breaker.after_failure(why, limit, now.monotonic)
            logger.warning("session %s: summarizer failed (%s)", self._conversation.id, self._fallback_reason)
        else:
            cooldown.breaker = Breaker()
            self._fallback_reason = answer.fallback_reason

    # -- ends

    def _commit(self, candidate: Candidate[M], start: Instant) -> Flow[CompactionResult[M]]:
        """Make the record active, store it, and emit the event."""
        conversation = self._conversation
        made = candidate.complete_record(conversation.export_calibration(self._snapshot.model))
        if self._order.is_preview:
            return (yield from self._preview(candidate, made, start))
        if made.parent in conversation.records.undone or conversation.queue is not self._queue:
            # Its parent was undone meanwhile, or the conversation was forgotten and has begun anew.
            self._snapshot = self._take_snapshot()
            self.is_outdated = not self._snapshot.fits_window
            return (yield from self._skip(start, CompactionOutcome.NO_GAIN, "undone"))

        conversation.records.add_own(made)
        if conversation.reasoning.pending != "refused":
            conversation.reasoning.pending = "answer" if self._may_get_answer else ""
        conversation.views.keep_candidate(candidate.snapshot.history, made, candidate.plain, candidate.view)
        if not self._has_waited:  # every message was read again, and no other code ran since
            conversation.records.active_id = made.id
        until = int(made.tokens_after * (1 + MINIMUM_GROWTH_RATIO))
        conversation.cooldown.pause = Pause(until, "no progress", self._budget.window)

        snapshot, is_first_list = self._take_snapshot(), conversation.last_sent is None
        view = self._hand_out(snapshot, is_by_hand=self._is_manual)
        if conversation.queue.has_store:
            conversation.queue.save(made)
            if conversation.queue.state == "loaded":
                conversation.queue.state = "stale"  # another worker may have made one too: the next call loads again
            yield from write(conversation)
        elif is_first_list and made.parent is None and made.usage and made.usage.input_tokens:
            warn_if_paid_again(snapshot.history)

        record = snapshot.record  # another worker's, if it covers the same messages and takes precedence
        if record is None or (record is not made and snapshot.tokens > self._budget.trigger):
            self.is_outdated = snapshot.tokens > self._budget.trigger
            self._snapshot = snapshot
            return (yield from self._skip_outdated(start))

        conversation.pressure.end()
        yield from self._report_finished(snapshot, record, start)
        if not snapshot.is_current:
            view = self._hand_out(snapshot, is_by_hand=self._is_manual)
        return self._build_result(view, CompactionOutcome.COMPACTED, record)

    def _report_finished(self, after: Snapshot[M], record: CompactionRecord, start: Instant) -> Flow[None]:
        """Emit the event of a compaction whose record is active."""
        end: Instant = yield Now()
        event = finished_event(
            self._conversation.id,
            self._order.reason,
            self._snapshot,
            after,
            record,
            seconds=end.seconds_since(start),
            usage=self._spent,
            fallback_reason=self._fallback_reason,
            overruled_veto=self.answers.veto,
        )
        logger.info("%s", event)
        yield Emit(event)

    def _preview(self, candidate: Candidate[M], record: CompactionRecord, start: Instant) -> Flow[CompactionResult[M]]:
        """Return the view that a record would give to the list as it is now."""
        now = self._renew(self._snapshot)
        if not is_true(now.history, record):
            self.is_outdated = now.tokens > self._budget.trigger
            return (yield from self._skip_outdated(start))
        if now is not self._snapshot:
            candidate = Candidate(snapshot=now, record=record)
        return self._build_result(
            candidate.snapshot.write(candidate.view, for_store=True), CompactionOutcome.PREVIEWED, record
        )

    @property
    def _may_get_answer(self) -> bool:
        """Whether the model may still answer the view that this compaction replaces; that answer belongs to the old view."""
        if self._order.reason is CompactionReason.OVERFLOW:
            return False
        sent, key = self._conversation.last_sent, self._snapshot.key
        if sent is not None and sent.snapshot.key._replace(estimated=key.estimated) == key:
            return True
        if sent is not None and self._order.reason is not CompactionReason.MANUAL:
            return False
        history = self._snapshot.history  # another worker may have sent it, or may send it before it reads the store
        return self._conversation.queue.has_store and history.run_side(history.run_count - 1) == "host"

    def _skip(self, start: Instant, outcome: CompactionOutcome, why: str) -> Flow[CompactionResult[M]]:
        end: Instant = yield Now()
        event = CompactionSkipped(
            session_id=self._conversation.id,
            reason=self._order.reason,
            why=why,
            tokens=self._snapshot.tokens,
            duration_seconds=end.seconds_since(start),
            usage=self._spent,
        )
        if not self._order.is_preview:
            yield Emit(event)
        return self._build_result(self._hand_out_unchanged(), outcome, None)

    def _skip_outdated(self, start: Instant) -> Flow[CompactionResult[M]]:
        return (yield from self._skip(start, CompactionOutcome.NO_GAIN, "the history was changed meanwhile"))

    def _last_resort(self, start: Instant) -> Flow[CompactionResult[M]]:
        """End without a good candidate: keep a view that fits the window, else commit any candidate that fits, else fail."""
        window, until = self._budget.window, int(self._snapshot.tokens * (1 + MINIMUM_GROWTH_RATIO))
        choice = self._choice
        why = choice.rejected[-1][1] if choice.rejected else ""
        if not choice.can_wait:
            fitting = choice.find_fitting(shortens=may_shorten(self._call.settings))
            if fitting is not None:
                return (yield from self._commit(fitting, start))
            if not self._snapshot.fits_window or self._order.reason is CompactionReason.OVERFLOW:
                self._cooldown.unfit_list = UnfitList(self._snapshot.history.log, until, window)
                tried = (candidate.tokens for candidate, _ in choice.rejected)
                error = unfit_error(self._snapshot, self._call.settings, window, tried)
                return (yield from self._fail(start, error))

        if self._order.spares == "turn":
            self._cooldown.spared = UserRequest.of(self._snapshot.history)
        if self._order.spares != "turn" or (
            self._spent and self._spent.input_tokens
        ):  # the next turn shall not pay in vain too
            self._cooldown.pause = Pause(until, "no gain", window)
        if not why:
            return (yield from self._skip(start, CompactionOutcome.NOTHING_TO_COMPACT, "nothing to summarize"))
        return (yield from self._skip(start, CompactionOutcome.NO_GAIN, why))

    # -- results and events

    def _hand_out_unchanged(self) -> list[M]:
        if self._order.is_preview:  # it is not to be sent
            return self._renew(self._snapshot).to_store
        return self._hand_out(self._snapshot)

    def _hand_out(self, snapshot: Snapshot[M], *, is_by_hand: bool = False) -> list[M]:
        """Return the view for hosts to store, and remember the one to send."""
        conversation = self._conversation
        sent = conversation.remember_sent(self._renew(snapshot))._replace(is_by_hand=is_by_hand)
        self.last_sent = conversation.newest_view = sent
        return sent.to_store

    def _take_snapshot(self) -> Snapshot[M]:
        return learn_and_look(self._conversation, self._call).freeze(self._call.messages)

    def _renew(self, snapshot: Snapshot[M]) -> Snapshot[M]:
        """Return a snapshot of the list as it is now."""
        return snapshot if snapshot.is_current else self._take_snapshot()

    def _build_result(
        self, messages: list[M], outcome: CompactionOutcome, record: CompactionRecord | None
    ) -> CompactionResult[M]:
        before = self._snapshot.tokens
        return CompactionResult(
            messages=messages,
            record=record or self._snapshot.record,
            outcome=outcome,
            reason=self._order.reason,
            tokens_before=before,
            tokens_after=record.tokens_after if record else before,
        )

    def _fail(self, start: Instant, cause: BaseException) -> Flow[CompactionResult[M]]:
        """Hand out the view unchanged, with an event that says whether it is too large.

        Raises:
            ContextOverflowError: the cause; the view cannot wait for a better candidate, and the order says that it must fit.
        """
        end: Instant = yield Now()
        event = CompactionFailed(
            session_id=self._conversation.id,
            reason=self._order.reason,
            error=describe_error(cause),
            tokens=self._snapshot.tokens,
            is_over_window=not self._snapshot.fits_window,
            is_breaker_open=self._cooldown.breaker.opened_at is not None,
            duration_seconds=end.seconds_since(start),
            usage=self._spent,
        )
        if event.is_over_window:
            logger.error("%s", event)
        if not self._order.is_preview:
            yield Emit(event)
        if self._order.must_fit and not self._choice.can_wait:
            raise cause

        return self._build_result(self._hand_out_unchanged(), CompactionOutcome.FAILED, None)
