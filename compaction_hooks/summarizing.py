"""Asks the summariser for what a plan needs, as a flow: one attempt, its answers judged, its cost added up."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from compaction_hooks.effects import Aborted, Answered, Failure, Flow, Summarize
from compaction_hooks.errors import SummaryRefusedError
from compaction_hooks.messages import M, Message, Usage
from compaction_hooks.overflow import is_context_overflow
from compaction_hooks.planning import SummaryPlan
from compaction_hooks.prompts import merge_turn_prefix
from compaction_hooks.situation import Situation
from compaction_hooks.summarizers import SummaryKind, SummaryRequest, accepted, halved, refusal, summary_request
from compaction_hooks.values import dataclass

PREFIX_RATIO = 0.35
"""Of a summary's allowance, the part of a split turn's own summary."""
OVERFLOW_TRIES = 3
"""How often the transcript is halved when it overflows the summariser itself (Codex drops item by item, unbounded)."""


@dataclass(frozen=True, slots=True)
class Summarized:
    """The summary of a plan, all its parts merged, and what it cost."""

    text: str
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class SummaryFailed:
    """Why there is no summary, and what the attempt cost all the same."""

    error: BaseException
    usage: Usage | None


def summarize(now: Situation[M], plan: SummaryPlan, focus: str | None) -> Flow[Summarized | SummaryFailed | Aborted]:
    """Ask for the history summary and, when the plan splits a turn, for that of its first part: one after the other (E43)."""
    prefix_tokens = int(plan.allowance * (PREFIX_RATIO if plan.history else 1)) if plan.prefix else 0
    texts: list[str] = []
    usage: Usage | None = None
    history_kind: SummaryKind = "update" if plan.previous_summary else "history"
    parts: list[tuple[SummaryKind, Sequence[Message], int]] = [
        (history_kind, plan.history, plan.allowance - prefix_tokens),
        ("turn_prefix", plan.prefix, prefix_tokens),
    ]
    for kind, messages, tokens in parts:
        if not messages:
            texts.append("")
            continue
        answer = yield from _ask(
            now, messages, kind, plan.previous_summary if kind == "update" else None, focus, tokens
        )
        if isinstance(answer, Aborted):
            return answer
        usage = added(usage, answer.usage)
        if isinstance(answer, SummaryFailed):
            return SummaryFailed(answer.error, usage)
        texts.append(answer.text)
    return Summarized(merge_turn_prefix(*texts) if texts[1] else texts[0], usage)


def _ask(
    now: Situation[M],
    messages: Sequence[Message],
    kind: SummaryKind,
    previous_summary: str | None,
    focus: str | None,
    max_tokens: int,
) -> Flow[Summarized | SummaryFailed | Aborted]:
    window = now.settings.summarizer_window or now.budget.window
    request: SummaryRequest | None = summary_request(
        messages,
        kind=kind,
        previous_summary=previous_summary,
        focus=focus,
        max_tokens=max_tokens,
        request_tokens=int(window / now.gauge.ratio) - max_tokens,
        estimate=now.estimator.estimate_tokens,
    )
    answer: Answered | Failure | Aborted = Failure(SummaryRefusedError("nothing to ask"))
    for _ in range(OVERFLOW_TRIES):
        if request is None:
            break
        answer = yield Summarize(request)
        if not isinstance(answer, Failure) or not is_context_overflow(answer.error):
            break
        request = halved(request, now.estimator.estimate_tokens)
    if isinstance(answer, Answered) and request is not None:
        return _judged(answer.value, request, now)
    return answer if isinstance(answer, Aborted) else SummaryFailed(cast("Failure", answer).error, None)


def _judged(value: object, request: SummaryRequest, now: Situation[M]) -> Summarized | SummaryFailed:
    if inspect.iscoroutine(value):
        value.close()  # it is refused; Python would complain that nobody awaited it
    why = refusal(value, request, now.estimator.estimate_tokens)
    summary = accepted(value)
    if why is not None:
        return SummaryFailed(SummaryRefusedError(why), summary.usage)
    return Summarized(summary.text, summary.usage)


def added(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return two costs together; None when neither is known."""
    if one is None or other is None:
        return one or other
    return replace(
        one,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
    )
