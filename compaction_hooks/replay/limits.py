"""Limits for replayed sessions, and the findings that tell which of them hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from compaction_hooks.arguments import Kind, check, is_number, whole
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.replay.needs import NEXT_STEPS
from compaction_hooks.replay.numbers import pluralize, short
from compaction_hooks.replay.replayed import Replay

SHOWN: Final = 10
"""How many of the lost names or constraints a finding lists."""

_KINDS: Final[Mapping[str, Kind]] = {
    "min_kept": Kind(lambda value: is_number(value) and 0 <= value <= 1, "be a share between 0 and 1, such as 0.6"),
    "max_cents": Kind(lambda value: is_number(value) and 0 <= value < math.inf, "be a number of US cents from zero on"),
    "max_lost_constraints": whole("constraints", least=0),
}


class Verdict(StrEnum):
    """The outcome of one limit."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that each session must keep. None: no such limit.

    Attributes:
        min_kept: The least share, 0 to 1, of the identifiers in `UsedLater` that a summary or a pinned message keeps.
        max_cents: The most that the session's calls may cost by its model's prices, in US cents.
        max_lost_constraints: The most of the user's constraints that may be missing from a view.

    Raises:
        ConfigurationError: there is no limit at all, or one is out of its range.
    """

    min_kept: float | None = None
    max_cents: float | None = None
    max_lost_constraints: int | None = None

    def __post_init__(self) -> None:
        given = asdict(self)
        if set(given.values()) == {None}:
            raise ConfigurationError("no limit is given: set min_kept, max_cents or max_lost_constraints")
        check(_KINDS, given, optional=given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one limit in one session.

    Attributes:
        limit: The name of the limit: a field of `Limits`, or `fits` or `summarizer`, which are judged in any case.
        measured: The value that was compared; None if it was not measured. Of `fits` it is the number of calls that do not, of
            `summarizer` the number of its failures.
        why: The value in words, and the place to look at. It may quote names and constraints of the conversation.
    """

    limit: str
    verdict: Verdict
    measured: float | None
    why: str

    def fails(self, *, allow_unmeasured: bool = False) -> bool:
        """Return whether it fails a check: a limit that could not be measured does, unless that is allowed."""
        return self.verdict is Verdict.FAILED or (self.verdict is Verdict.NOT_MEASURED and not allow_unmeasured)


def judge(replay: Replay, limits: Limits, *, has_summarizer: bool = False) -> list[Finding]:
    """Return the findings of one session, one for each limit that is set, those of `fits` and `summarizer` first.

    Args:
        has_summarizer: Whether a summarizer of the host wrote the summaries. If so, its cost counts, by estimate if it reports no
            usage, and a failure of it fails the session, because a summary that was made in its place says nothing about it.
    """
    return list(_judge_each(replay, limits, has_summarizer))


def _judge_each(replay: Replay, limits: Limits, has_summarizer: bool) -> Iterator[Finding]:
    yield _judge_fit(replay)
    if has_summarizer:
        yield _judge_summarizer(replay)
    if limits.min_kept is not None:
        yield _judge_kept(replay, limits.min_kept)
    if limits.max_lost_constraints is not None:
        yield _judge_constraints(replay, limits.max_lost_constraints)
    if limits.max_cents is not None:
        yield _judge_cents(replay, limits.max_cents, has_summarizer)


def _finding(limit: str, measured: float, passes: bool, why: str) -> Finding:
    return Finding(limit=limit, verdict=Verdict.PASSED if passes else Verdict.FAILED, measured=measured, why=why)


def _not_measured(limit: str, why: str) -> Finding:
    return Finding(limit=limit, verdict=Verdict.NOT_MEASURED, measured=None, why=why)


def _judge_fit(replay: Replay) -> Finding:
    count = len(replay.unfit)
    why = f"every call fits the window of {short(replay.window)}"
    if replay.unfit:
        first = replay.unfit[0]
        calls = f"{pluralize(count, 'call')} could not be made to fit the window of {short(replay.window)}"
        why = f"{calls}; the first is call {first.call}: {first.error}"
    return _finding("fits", count, not count, why)


def _judge_summarizer(replay: Replay) -> Finding:
    count = len(replay.failed)
    written = sum(bool(compaction.summary) for compaction in replay.compactions)
    why = f"no failure; {written} of {pluralize(len(replay.compactions), 'compaction')} have a summary"
    if replay.failed:
        first = replay.failed[0]
        why = f"{pluralize(count, 'failure')}; the first at call {first.call}: {first.error}"
    return _finding("summarizer", count, not count, why)


def _judge_kept(replay: Replay, least: float) -> Finding:
    totals = replay.totals
    if not replay.compactions:
        # Not "not measured": most sessions of a folder are short, and nothing of theirs can be lost.
        return _finding("min_kept", 1.0, True, "no compaction, so nothing is lost")

    if not totals.used_later:
        why = f"the agent used no name that only compacted messages had in the {NEXT_STEPS} calls after a compaction"
        return _not_measured("min_kept", why)

    share = totals.kept / totals.used_later
    lost = [(each.call, name) for each in replay.compactions for name in each.used_later.lost]
    counts = f"kept {totals.kept} of {totals.used_later} names that the agent used after a compaction"
    why = f"{counts}: {share:.3f}, at least {least:g} is asked for{_list_lost(lost)}"
    return _finding("min_kept", share, share >= least, why)


def _judge_constraints(replay: Replay, most: int) -> Finding:
    totals = replay.totals
    lost: dict[str, int] = {}
    for compaction in replay.compactions:
        for text in compaction.lost_constraints:
            lost.setdefault(text, compaction.call)
    counts = f"lost {len(lost)} of {pluralize(totals.constraints, 'constraint')} of the user in compacted messages"
    why = f"{counts}, at most {most} may be{_list_lost([(call, repr(text)) for text, call in lost.items()])}"
    return _finding("max_lost_constraints", len(lost), len(lost) <= most, why)


def _judge_cents(replay: Replay, most: float, has_summarizer: bool) -> Finding:
    cost = next((cost for cost in replay.costs if cost.is_recorded), None)
    if cost is None:
        return _not_measured("max_cents", "no price of the recorded model is known, or the recording names no model")

    cents = 100 * (cost.with_compaction + (cost.summaries if has_summarizer else 0.0))
    parts = [pluralize(len(replay.calls), "call"), pluralize(len(replay.compactions), "compaction")]
    if has_summarizer and any(compaction.summary for compaction in replay.compactions):
        parts.append(
            f"{_cents(100 * cost.summaries)} of it for summaries"
            if cost.summaries
            else "summaries count as free, since no answer of the summarizer had a cost"
        )
    parts.append(f"{_cents(100 * cost.without_compaction)} without compaction")

    why = f"{_cents(cents)} by {cost.model}'s prices, at most {most:g} are allowed ({', '.join(parts)})"
    return _finding("max_cents", cents, cents <= most, why)


def _cents(amount: float) -> str:
    return f"{amount:,.2f} cents" if amount >= 1 or not amount else f"{amount:.2g} cents"


def _list_lost(lost: Sequence[tuple[int, str]]) -> str:
    """Return the first of what was lost with the calls of its compactions, behind a semicolon; nothing if nothing was."""
    if not lost:
        return ""
    by_call: dict[int, list[str]] = {}
    for call, name in lost[:SHOWN]:
        by_call.setdefault(call, []).append(name)
    groups = "; ".join(f"at call {call}: {', '.join(names)}" for call, names in by_call.items())
    more = f"; and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return f"; lost {groups}{more}"
