"""Usage that is missing, zero, a sum, negative, of another model or no number: sizes stay sane, and no compaction runs wild."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest

from compaction_hooks import CompactionFinished, Usage
from tests.cases import crossed, folded
from tests.conversations import assistant, talk, user
from tests.faults.harness import OVERFLOW, SIDES, WINDOW, Chat, Rig, Side, fallback_settings, rig, tokens, works

CALLS = 24
Report = Callable[[int, int], dict[str, Any] | None]
"""From the true size of the view, and the sum of all sizes so far, to the provider's usage for a call."""


def openai(**fields: object) -> dict[str, Any]:
    return dict(fields)


REPORTS: dict[str, Report] = {
    "true": lambda size, total: openai(prompt_tokens=size, completion_tokens=20),
    "missing": lambda size, total: None,
    "empty": lambda size, total: openai(),
    "all zero": lambda size, total: openai(prompt_tokens=0, completion_tokens=0, total_tokens=0),
    "zero input": lambda size, total: openai(prompt_tokens=0, completion_tokens=20),
    "negative input": lambda size, total: openai(prompt_tokens=-size, completion_tokens=20),
    "negative output": lambda size, total: openai(prompt_tokens=size, completion_tokens=-1),
    "more cached than sent": lambda size, total: openai(
        prompt_tokens=size, completion_tokens=1, prompt_tokens_details={"cached_tokens": 9 * size}
    ),
    "texts": lambda size, total: openai(prompt_tokens=str(size), completion_tokens="many"),
    "not a number": lambda size, total: openai(prompt_tokens=math.nan, completion_tokens=math.inf),
    "booleans": lambda size, total: openai(prompt_tokens=True, completion_tokens=False),
    "nothing but null": lambda size, total: openai(prompt_tokens=None, completion_tokens=None),
    "details of the wrong type": lambda size, total: openai(
        prompt_tokens=size, completion_tokens=1, prompt_tokens_details="none"
    ),
    "the output for the input": lambda size, total: openai(prompt_tokens=20, completion_tokens=size),
    "a tenth": lambda size, total: openai(prompt_tokens=size // 10, completion_tokens=20),
    "cut": lambda size, total: openai(prompt_tokens=min(size, WINDOW // 4), completion_tokens=20),
    "threefold": lambda size, total: openai(prompt_tokens=3 * size, completion_tokens=20),
    "cumulative": lambda size, total: openai(prompt_tokens=total, completion_tokens=20),
    "astronomical": lambda size, total: openai(prompt_tokens=10**18, completion_tokens=20),
}
"""By id: the provider's usage for each call."""


class Outcome(NamedTuple):
    compactions: int
    sizes: list[int]
    failures: list[str]


def run(driven: Rig, report: Report, model: str | None = None) -> Outcome:
    """Run an agent's calls, each answered with this usage; the sizes are those of the views."""
    messages: list[Chat] = [user("go")]
    sizes: list[int] = []

    def send(view: list[Chat]) -> dict[str, Any]:
        if tokens(view) > WINDOW:
            raise OVERFLOW
        sizes.append(tokens(view))
        answer: dict[str, Any] = {
            "object": "chat.completion",
            "choices": [{"message": assistant("done"), "finish_reason": "stop"}],
        }
        usage = report(sizes[-1], sum(sizes))
        return {**answer, **({} if usage is None else {"usage": usage}), **({"model": model} if model else {})}

    for n in range(CALLS):
        driven.handed_in.clear()
        driven.call(messages, send)
        messages = [*messages, *talk(1, 200, first=n)[::-1]]
    compactions = sum(isinstance(event, CompactionFinished) for event in driven.events)
    return Outcome(compactions, sizes, driven.failures)


@cache
def without_usage(side: Side) -> Outcome:
    return run(rig(side, summarizer=works, settings=fallback_settings()), REPORTS["missing"])


IGNORED = (
    "empty",
    "all zero",
    "zero input",
    "negative input",
    "negative output",
    "more cached than sent",
    "texts",
    "not a number",
    "booleans",
    "nothing but null",
    "astronomical",
)


@crossed(name=[name for name in REPORTS if name not in IGNORED], side=SIDES)
def test_no_report_fails_a_call_or_lets_a_view_overflow(name: str, side: Side) -> None:
    compactions, sizes, failures = run(rig(side, summarizer=works, settings=fallback_settings()), REPORTS[name])
    assert len(sizes) == CALLS
    assert 1 <= compactions <= CALLS // 4, "a compaction every fourth call at most"
    assert not failures or name == "cumulative", "sums are believed until they cannot be true"


@crossed(name=IGNORED, side=SIDES)
def test_a_report_that_says_nothing_true_changes_nothing(name: str, side: Side) -> None:
    """Each call is as without a report, and that is one of those above."""
    assert run(rig(side, summarizer=works, settings=fallback_settings()), REPORTS[name]) == without_usage(side)


@pytest.mark.parametrize("side", SIDES)
def test_the_usage_of_another_model_is_not_taken_for_this_ones(side: Side) -> None:
    """A title or an embedding by another model, counted on the same answer: ten times the size would compact at once."""
    one, other = (rig(side, summarizer=works, settings=fallback_settings(), model="gpt-5") for _ in range(2))
    heavy: Report = lambda size, total: openai(prompt_tokens=10 * size, completion_tokens=1)  # noqa: E731 - a row of the table
    assert run(one, heavy, model="gpt-4o-mini") == run(other, REPORTS["missing"], model="gpt-5")


@folded(
    "usage",
    {
        "zero": Usage(input_tokens=0, output_tokens=0),
        "negative": Usage(input_tokens=-5, output_tokens=3),
        "more cached than sent": Usage(input_tokens=10, output_tokens=3, cache_read_tokens=99),
    },
)
def test_a_nonsense_report_by_hand_is_ignored(usage: Usage) -> None:
    driven = rig("sync")
    messages: list[Chat] = [user("go"), *talk(3)]
    driven.transform(messages)
    before = driven.hooks.state()
    driven.session.report_usage(usage)
    driven.session.report_usage(Usage(input_tokens=5, output_tokens=1), view=[user("another list")])
    assert driven.hooks.state() == before


def test_a_report_before_any_call_is_ignored() -> None:
    driven = rig("sync")
    driven.session.report_usage(Usage(input_tokens=500, output_tokens=1))
    assert driven.hooks.state().context_tokens is None
