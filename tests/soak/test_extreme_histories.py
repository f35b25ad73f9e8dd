"""The largest messages and lists of tests/faults at their full size. A minute or more each."""

import time
from collections.abc import Callable

import pytest

from tests.faults.harness import SIDES, Chat, Side
from tests.faults.test_extreme_histories import check_many, check_run, large_request, large_result


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("make", [large_result, large_request], ids=["in a result", "in an old request"])
def test_fifty_megabytes_in_one_message(make: Callable[[int], list[Chat]], side: Side) -> None:
    messages = make(50_000_000)
    started = time.perf_counter()
    check_run(side, "over the window", messages)
    print(f"50 MB in one message, {side}: {time.perf_counter() - started:.1f} s, the checks included")


@pytest.mark.parametrize("side", SIDES)
def test_a_hundred_thousand_messages(side: Side) -> None:
    started = time.perf_counter()
    check_many(side, 100_000)
    print(f"100,000 messages, {side}: {time.perf_counter() - started:.1f} s, the checks included")
