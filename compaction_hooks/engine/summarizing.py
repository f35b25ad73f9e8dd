"""Requesting the summary of a plan, as a flow: checks each answer, and adds up the cost."""

from __future__ import annotations

import inspect
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from compaction_hooks.digest import facts, write
from compaction_hooks.engine.call import Call
from compaction_hooks.engine.in_place import LastCall, find_in_place
from compaction_hooks.errors import SummaryRefusedError
from compaction_hooks.foreign import describe_error
from compaction_hooks.messages import M, Usage
from compaction_hooks.native import NativeItems
from compaction_hooks.overflow import is_context_overflow
from compaction_hooks.runtime.effects import Aborted, AskSummarizer, Failure, Flow, Instant, Now, Success, Work
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan
from compaction_hooks.summary.answers import asks_for_headings, read_summary_usage, refusal, unwrap_answer
from compaction_hooks.summary.request import InPlace, LazyRequest, LiveCall, Summary, SummaryKind
from compaction_hooks.tokens.budget import IDENTIFIER_TOKENS, Budget
from compaction_hooks.view.snapshot import Snapshot

OVERFLOW_TRIES = 3
"""Tries of one request, each with half of the transcript, while it overflows the summarizer itself (Codex: unbounded)."""
MAX_PARTS = 4
"""The most requests for a history larger than the summarizer's window: each costs a window full of input."""

logger = logging.getLogger("compaction_hooks")


class SummaryFailed(NamedTuple):
    """The reason why there is no summary, and the cost of the answer that is none."""

    error: BaseException
    usage: Usage | None


def summarize(
    snapshot: Snapshot[M],
    budget: Budget,
    call: Call[M],
    plan: SummaryPlan,
    focus: str | None,
    spend: Callable[[Usage | None], None],
    session_id: str,
    last_call: LastCall | str,
) -> Flow[Summarized | SummaryFailed | Aborted]:
    """Request a summary of the messages of a plan.

    If they do not fit the summarizer's window, further requests update the summary so far. Messages left after `MAX_PARTS`,
    at the deadline or after the failure of a later request are summarized by rule; the last two are failures of the summarizer.

    Args:
        spend: Gets the cost of each answer as soon as it is known: the next request may be aborted.
        session_id: The conversation, for the log.
        last_call: The call before, whose cache a summary asked in place reads; in words why it has none.
    """
    left = min(call.settings.summary_timeout_seconds, threading.TIMEOUT_MAX)
    messages = plan.messages
    usage: Usage | None = None
    last = Summarized(plan.previous_summary or "", None)
    done = 0
    identifier_tokens = IDENTIFIER_TOKENS if plan.identifier_tokens is None else plan.identifier_tokens
    # The same in all parts.
    name_facts = cache(
        partial(plan.facts.list_for_prompt, identifier_tokens, plan.allowance, snapshot.estimator.estimate_tokens)
    )
    for _ in range(MAX_PARTS):
        if done == len(messages) or not left:
            break
        start: Instant = yield Now()
        in_place = None if done else partial(find_in_place, snapshot, budget, call, plan, focus, name_facts, last_call)
        request = _build_request(
            snapshot, budget, call, plan, last.text, focus, done, start.monotonic + left, name_facts, in_place
        )
        answer = yield from _ask(snapshot, request, left, session_id)
        if isinstance(answer, Aborted):
            return answer
        spend(answer.usage)
        usage = usage + answer.usage if usage and answer.usage else usage or answer.usage
        end: Instant = yield Now()
        took = end.seconds_since(start)
        # An answer comes within its time-out: if the clock disagrees, it was set meanwhile.
        left -= took if took <= left else 0
        if isinstance(answer, SummaryFailed):
            if request.place is not None and left and not isinstance(answer.error, TimeoutError):
                last_call = f"the request in place failed ({describe_error(answer.error)})"
                continue
            if not done:
                return answer._replace(usage=usage)
            told = session_id, done, len(messages)
            logger.debug("session %s: the summary has %d of %d messages, the others are summarized by rule", *told)
            last = replace(last, error=answer.error)
            break

        if answer.native is not None or not answer.text:
            all_in_one: Summarized = yield Work(partial(add_text, plan, answer))
            return replace(all_in_one, usage=usage)

        last = answer
        done += len(request.messages) - answer.unseen
        if not left and done < len(messages):
            last = replace(last, error=TimeoutError("the summarizer took all of its time for a part of the messages"))

    whole = yield from _summarize_rest(plan, last, done)
    return replace(whole, usage=usage)


def _summarize_rest(plan: SummaryPlan, last: Summarized, done: int) -> Flow[Summarized]:
    """Return a summary of the first `done` messages with the others added by rule."""
    messages = plan.messages
    unseen = len(messages) - done
    if unseen:
        by_rule: str = yield Work(partial(write, facts(messages[done:], last.text, plan.kept), plan.allowance))
        last = replace(last, text=by_rule or last.text, is_by_rule=True)
    return replace(last, unseen=unseen)


def add_text(plan: SummaryPlan, answer: Summarized) -> Summarized:
    """Return an answer about all messages of a plan with a text, by rule if it has none: native items, or the reason for none."""
    messages = plan.messages
    text = answer.text or write(facts(messages, plan.previous_summary, plan.kept), plan.allowance)
    return replace(answer, text=text, unseen=0 if answer.native else len(messages), is_by_rule=not answer.text)


def _build_request(
    snapshot: Snapshot[M],
    budget: Budget,
    call: Call[M],
    plan: SummaryPlan,
    text: str,
    focus: str | None,
    done: int,
    deadline: float,
    name_facts: Callable[[], str],
    in_place: Callable[[Callable[[], int]], InPlace | None] | None,
) -> LazyRequest:
    """Return the request for the messages of a plan from `done` on."""
    kind: SummaryKind = "update" if text else "history"
    window = call.settings.summarizer_window or budget.window
    return LazyRequest(
        plan.messages[done:],
        kind=kind,
        previous_summary=text if kind == "update" else None,
        focus=focus,
        max_tokens=plan.allowance,
        # The ratio was learned from messages: below 1 it may be wrong for their transcript.
        request_tokens=int(window / max(snapshot.ratio, 1.0)) - plan.allowance,
        estimate=snapshot.estimator.estimate_tokens,
        deadline=deadline,
        form=call.settings.summary_prompt,
        instructions=call.settings.summary_instructions,
        kept_messages=plan.kept,
        name_facts=name_facts,
        find_live=lambda: LiveCall(
            messages=snapshot.write_before(plan.cut),
            provider=snapshot.format.provider,
            model=snapshot.model,
            system=call.system,
            tools=call.tools,
            request=call.request,
        ),
        find_place=in_place,
    )


def _ask(
    snapshot: Snapshot[M], asked: LazyRequest, seconds: float, session_id: str
) -> Flow[Summarized | SummaryFailed | Aborted]:
    """Send one request, with `seconds` as time-out; halve the transcript while it overflows the summarizer's own window."""
    answer: Success | Failure | Aborted = yield AskSummarizer(asked, seconds)
    for _ in range(OVERFLOW_TRIES - 1):
        if not isinstance(answer, Failure) or asked.place is not None:
            break
        smaller: LazyRequest | None = yield Work(partial(_make_smaller, asked, answer.error))
        if smaller is None:
            break
        asked = smaller
        answer = yield AskSummarizer(asked, seconds)

    if isinstance(answer, Success):
        judged: Summarized | SummaryFailed = yield Work(
            partial(_check_answer, answer.value, asked, snapshot, session_id)
        )
        return judged
    return answer if isinstance(answer, Aborted) else SummaryFailed(answer.error, None)


def _make_smaller(asked: LazyRequest, error: BaseException) -> LazyRequest | None:
    """Return a request with half of the transcript if the error says that it overflowed; else None."""
    return asked.halve() if is_context_overflow(error) else None


def _check_answer(
    value: object, request: LazyRequest, snapshot: Snapshot[M], session_id: str
) -> Summarized | SummaryFailed:
    if inspect.iscoroutine(value):
        value.close()  # it is refused; without this Python warns that it was never awaited

    summary = unwrap_answer(value)
    usage = read_summary_usage(summary, request, snapshot.estimator)
    seen = request.seen_messages
    why = refusal(value, request, snapshot.estimator.estimate_tokens)
    if why is None and not seen:
        why = "the summarizer's window has no room for a single message"
    native = _read_native(summary, snapshot, session_id)
    if why is not None and native is None and not summary.fallback_reason:
        return SummaryFailed(SummaryRefusedError(why), usage)

    unseen = len(request.messages) - seen
    text = summary.text
    return Summarized(
        "" if why else text,
        usage,
        unseen,
        native,
        summary.fallback_reason,
        is_by_rule=summary.is_by_rule,
        asks_for_headings=asks_for_headings(request),
        has_form=request.form is not None,
    )


def _read_native(summary: Summary, snapshot: Snapshot[M], session_id: str) -> NativeItems | None:
    """Return the native items of an answer as plain JSON, with their size; None without any, or if they are no JSON."""
    native = summary.native
    if not isinstance(native, NativeItems):
        return None
    try:
        items = tuple(json.loads(json.dumps(native.items)))
    except (TypeError, ValueError):
        logger.warning("session %s: native items are left out: they are not plain JSON", session_id)
        return None
    tokens = snapshot.text_tokens(summary.text) if native.tokens is None else native.tokens
    return native._replace(items=items, tokens=tokens)
