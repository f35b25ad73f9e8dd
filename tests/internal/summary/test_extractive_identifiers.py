"""Which identifiers the deterministic summarizer carries, and how little it holds while it looks for them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest

from compaction_hooks import ExtractiveSummarizer, SummaryRequest
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def step(arguments: str, result: str) -> list[Message]:
    call = ToolCall(id="c", name="look_up", arguments=arguments)
    return [
        Message(role="assistant", parts=(call,)),
        Message(role="tool", parts=(ToolResult(call_id="c", text=result),)),
    ]


def summary(messages: Iterable[Message], previous: str | None = None) -> str:
    request = SummaryRequest(
        system="",
        prompt="",
        transcript="",
        previous_summary=previous,
        focus=None,
        kind="history",
        max_tokens=2_000,
        messages=tuple(messages),
    )
    return ExtractiveSummarizer()(request).text


def identifiers(messages: Iterable[Message], previous: str | None = None) -> str:
    return summary(messages, previous).partition("### Identifiers")[2]


def test_a_name_counts_from_its_second_result_on() -> None:
    once, twice = "order/12/a.txt", "order/13/b.txt"
    found = identifiers([*step("{}", f"{once} {twice}"), *step("{}", twice)])
    assert twice in found
    assert once not in found


def test_a_name_of_an_earlier_summary_is_found_in_a_single_result() -> None:
    assert "is_open" in identifiers(step("{}", "is_open"), "## Next Steps\n- Call is_open")


@pytest.mark.parametrize("gap", [" ", "\n", "\n\n   ", ","])
def test_a_long_request_loses_no_name(gap: str) -> None:
    names = [f"src/{'m' * (1 + number % 70)}/f{number}.py" for number in range(100)]
    found = identifiers([user("x " * 5_000 + gap.join(names) + " x" * 5_000), *step("{}", "ok")])
    assert all(name in found for name in names)


@pytest.mark.parametrize("at", ["{} " + "data " * 100_000, "data " * 100_000 + "{}"])
def test_of_a_long_result_both_ends_are_read(at: str) -> None:
    assert "order_4711" in identifiers(step("{}", at.format('"order_id": "order_4711"')))


@pytest.mark.parametrize("before", range(960, 1_000, 8))
def test_half_a_name_is_not_carried(before: int) -> None:
    """Where the middle of a long result is left out."""
    name = "src/accounts/ledger/entry_17.py"
    result = f"{'.' * before} {name} {'data ' * 1_000} {name} {'.' * before}"
    found = identifiers([*step("{}", result), *step("{}", result)])
    assert found.count("src/accounts/ledger/entry_17.py") == found.count("src/") == 1
    assert found.count("17.py") == 1


def test_listings_cost_at_most_four_times_the_memory_of_their_text() -> None:
    """A hundred listings of names that never come again, the worst case: each of the names is remembered."""
    listings = ["\n".join(f"src/part{n}/file_{n}_{k}.py" for k in range(100)) for n in range(100)]
    messages = [message for listing in listings for message in step("{}", listing)]
    summary(messages[:4])
    tracemalloc.start()
    try:
        summary(messages)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * sum(map(len, listings))
