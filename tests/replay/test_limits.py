from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import CompactionReason, ConfigurationError
from compaction_hooks.replay import (
    Cost,
    FailedSummary,
    Limits,
    Replay,
    ReplayedCompaction,
    UnfitCall,
    UsedLater,
    Verdict,
    judge,
)
from compaction_hooks.replay.bills import Bill
from tests.cases import folded

ALL = Limits(min_kept=0.5, max_cents=40, max_lost_constraints=0)
PASSED, FAILED, NOT_MEASURED = Verdict


def compaction(call: int = 7, **fields: Any) -> ReplayedCompaction:
    given: dict[str, Any] = {
        "call": call,
        "reason": CompactionReason.THRESHOLD,
        **dict.fromkeys(("tokens_before", "tokens_after", "messages_before", "messages_after"), 10),
        **dict.fromkeys(("summarized_messages", "kept_messages", "pinned_messages"), 3),
        **dict.fromkeys(("cleared_results", "shortened_parts"), 0),
        **dict.fromkeys(("read_files", "modified_files"), ()),
        "summary": "## Goal",
        "used_fallback": False,
        **fields,
    }
    return ReplayedCompaction(**given)


def done(*compactions: ReplayedCompaction, **fields: Any) -> Replay:
    given: dict[str, Any] = {
        "session_id": "s1",
        "window": 64_000,
        "trigger": 40_000,
        "keep": 20_000,
        **dict.fromkeys(("calls", "unfit", "probes"), ()),
        "put_off": {},
        "used_recorded_usage": False,
        **fields,
    }
    return Replay(compactions=compactions, **given)


def cost(dollars: float, *, summaries: float = 0.0, is_recorded: bool = True) -> Cost:
    return Cost(
        model="m1",
        is_recorded=is_recorded,
        calls=(dollars / 2, dollars / 2),
        calls_without=(1.0,),
        summaries=summaries,
        sent=Bill(),
        sent_without=Bill(),
    )


def later(kept: str, lost: str) -> UsedLater:
    return UsedLater(kept=tuple(kept.split()), lost=tuple(lost.split()))


HALF = (compaction(used_later=later("a.py", "")), compaction(9, used_later=later("", "b.py")))
FORGOT = compaction(constraints=("Never push.", "Be brief."), lost_constraints=("Never push.",))


@folded(
    "replay, limit, verdict, measured, words",
    {
        "kept enough": (done(*HALF), "min_kept", PASSED, 0.5, "kept 1 of 2 names"),
        "kept too little": (
            done(*HALF, compaction(11, used_later=later("", "c.py TX-1"))),
            "min_kept",
            FAILED,
            0.25,
            "0.250, at least 0.5 is asked for; lost at call 9: b.py; at call 11: c.py, TX-1",
        ),
        "a long list is cut": (
            done(compaction(used_later=later("", " ".join(f"{number}.py" for number in range(12))))),
            "min_kept",
            FAILED,
            0.0,
            "lost at call 7: 0.py, 1.py, 2.py, 3.py, 4.py, 5.py, 6.py, 7.py, 8.py, 9.py; and 2 more",
        ),
        "nothing used later": (done(compaction()), "min_kept", NOT_MEASURED, None, "the agent used no name"),
        "nothing compacted": (done(), "min_kept", PASSED, 1.0, "no compaction"),
        "no constraint": (done(compaction()), "max_lost_constraints", PASSED, 0, "lost 0 of 0 constraints"),
        "a constraint lost twice": (
            done(FORGOT, replace(FORGOT, call=9)),
            "max_lost_constraints",
            FAILED,
            1,
            "lost 1 of 2 constraints of the user in compacted messages, at most 0 may be; lost at call 7: 'Never push.'",
        ),
        "cheap enough": (done(costs=(cost(0.4),)), "max_cents", PASSED, 40.0, "40.00 cents by m1's prices"),
        "too dear": (
            done(costs=(cost(0.5),)),
            "max_cents",
            FAILED,
            50.0,
            "at most 40 are allowed (0 calls, 0 compactions, 100.00 cents without compaction)",
        ),
        "summaries by rule are free": (done(costs=(cost(0.3, summaries=0.2),)), "max_cents", PASSED, 30.0, "30.00"),
        "no price": (done(costs=(cost(0.1, is_recorded=False),) * 4), "max_cents", NOT_MEASURED, None, "no price"),
        "every call fits": (done(), "fits", PASSED, 0, "every call fits the window of 64k"),
        "a call does not fit": (
            done(unfit=(UnfitCall(call=3, tokens=70_000, error="the request is too long"),)),
            "fits",
            FAILED,
            1,
            "1 call could not be made to fit the window of 64k; the first is call 3: the request is too long",
        ),
    },
)
def test_each_limit_has_a_finding_with_its_value_and_the_reason(
    replay: Replay, limit: str, verdict: Verdict, measured: float | None, words: str
) -> None:
    found = {finding.limit: finding for finding in judge(replay, ALL)}
    assert [*found] == ["fits", "min_kept", "max_lost_constraints", "max_cents"]
    assert found[limit].verdict is verdict
    assert found[limit].measured == pytest.approx(measured)
    assert words in found[limit].why


@folded(
    "replay, limit, verdict, words",
    {
        "it failed": (
            done(compaction(), failed=(FailedSummary(call=7, error="no credit"), FailedSummary(call=8, error="?"))),
            "summarizer",
            FAILED,
            "2 failures; the first at call 7: no credit",
        ),
        "it did not": (
            done(compaction(), compaction(summary="")),
            "summarizer",
            PASSED,
            "no failure; 1 of 2 compactions have a summary",
        ),
        "its summaries cost": (
            done(compaction(), costs=(cost(0.3, summaries=0.2),)),
            "max_cents",
            FAILED,
            "20.00 cents of it for summaries",
        ),
        "no answer had a cost": (
            done(compaction(), costs=(cost(0.3),)),
            "max_cents",
            PASSED,
            "summaries count as free",
        ),
    },
)
def test_a_summarizer_of_the_host_is_judged_too(replay: Replay, limit: str, verdict: Verdict, words: str) -> None:
    found = {finding.limit: finding for finding in judge(replay, ALL, has_summarizer=True)}
    assert found[limit].verdict is verdict
    assert words in found[limit].why


def test_only_limits_that_are_given_are_judged_and_one_is_needed() -> None:
    assert [finding.limit for finding in judge(done(), Limits(max_cents=1))] == ["fits", "max_cents"]
    with pytest.raises(ConfigurationError, match="min_kept, max_cents or max_lost_constraints"):
        Limits()


@folded(
    "limit, wanted",
    {
        "a share below zero": ({"min_kept": -1}, "min_kept=-1 must be a share between 0 and 1"),
        "percent": ({"min_kept": 60}, "min_kept=60 must be a share between 0 and 1"),
        "no number": ({"min_kept": float("nan")}, "min_kept=nan must be a share between 0 and 1"),
        "a text": ({"min_kept": "0.6"}, "min_kept=<str> must be a share between 0 and 1"),
        "money below zero": ({"max_cents": -0.1}, "max_cents=-0.1 must be a number of US cents from zero on"),
        "money without end": ({"max_cents": float("inf")}, "max_cents=inf must be a number of US cents from zero on"),
        "a count below zero": ({"max_lost_constraints": -1}, "max_lost_constraints=-1 must be a whole number"),
        "half a constraint": ({"max_lost_constraints": 0.5}, "max_lost_constraints=0.5 must be a whole number"),
    },
)
def test_a_limit_that_is_out_of_range_is_refused(limit: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Limits(**{"max_cents": 1, **limit})
    assert str(refused.value).startswith(wanted)


def test_a_limit_that_is_not_measured_fails_unless_that_is_allowed() -> None:
    _, found = judge(done(compaction()), Limits(min_kept=0))
    assert found.verdict is NOT_MEASURED
    assert (found.fails(), found.fails(allow_unmeasured=True)) == (True, False)
    _, wrong = judge(done(FORGOT), Limits(max_lost_constraints=0))
    assert wrong.fails(allow_unmeasured=True)
