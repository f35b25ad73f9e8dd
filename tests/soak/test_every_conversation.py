"""Every recorded conversation, call by call, at four windows, with usage reported and without: `nox -s soak`.

Sizes are counted with a real tokenizer (cl100k_base), not with our own estimate. The sample runs in the fast suite too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from compaction_hooks.tokens import CharacterEstimator
from tests.data import needs_data, sessions
from tests.invariants import Sizer, run_and_check
from tests.token_accuracy import real_tokenizer

WINDOWS = (8_192, 16_384, 32_768, 131_072)
RIGID_RATIO = 0.6
"""Only where system prompt, tools and current request take this much of the window by estimate may the rest not fit: reasoning in
the last step cannot be shortened."""
SAMPLE_EVERY = 23
"""Of the conversations, each so many-th is in the sample."""


@dataclass
class Figures:
    """What all conversations at one window did, in tokens of the real tokenizer."""

    conversations: int = 0
    calls: int = 0
    compactions: int = 0
    above_target: int = 0
    largest_view: int = 0
    sent: int = 0
    sent_without: int = 0
    over_window: list[str] = field(default_factory=list)
    cannot_fit: list[str] = field(default_factory=list)
    seconds: float = 0.0


def replay(window: int, *, reports_usage: bool, every: int) -> Figures:
    count = real_tokenizer("cl100k_base").estimate_tokens
    figures, started = Figures(), time.perf_counter()
    for record in list(sessions())[::every]:
        try:
            report = run_and_check(record, window, count, reports_usage=reports_usage)
        except AssertionError as error:
            raise AssertionError(f"{record['id']} at {window}: {error}") from error
        figures.conversations += 1
        figures.calls += report.calls
        figures.compactions += report.compactions
        figures.above_target += report.over_target
        figures.largest_view = max(figures.largest_view, report.largest_view if not report.over_window else 0)
        figures.sent += report.sent_with
        figures.sent_without += report.sent_without
        if report.over_window:
            figures.over_window.append(record["id"])
            rigid = smallest_request(record, Sizer(CharacterEstimator().estimate_tokens))
            assert rigid > window * RIGID_RATIO, f"{record['id']} should have been made to fit"
        if smallest_request(record, Sizer(count)) > window:
            figures.cannot_fit.append(record["id"])
    figures.seconds = time.perf_counter() - started
    return figures


def smallest_request(record: Mapping[str, Any], sizer: Sizer) -> int:
    """The largest over all calls of what no compaction can shrink: system prompt, tools and current request."""
    messages = record["messages"]
    tools = sizer.message({"role": "system", "content": json.dumps(record["tools"])}) if record.get("tools") else 0
    system = request = largest = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index:
            largest = max(largest, system + request + tools)
        elif message["role"] == "system":
            system += sizer.message(message)
        elif message["role"] == "user":
            request = sizer.message(message)
    return largest


def show(window: int, reports_usage: bool, figures: Figures) -> None:
    saved = 1 - figures.sent / figures.sent_without
    print(
        f"\n| {window:>7,} | {'yes' if reports_usage else 'no':>3} | {figures.conversations} | {figures.calls:,} "
        f"| {figures.compactions:,} | {figures.above_target:,} | {figures.largest_view:,} | {saved:.0%} "
        f"| {len(figures.over_window)} | {len(figures.cannot_fit)} | {figures.seconds:.0f} s |"
    )
    for name in figures.over_window:
        print(f"  reported, not sent as if it fitted: {name}")


@needs_data
@pytest.mark.parametrize("reports_usage", [False, True], ids=["estimated", "usage reported"])
@pytest.mark.parametrize("window", WINDOWS)
def test_every_conversation_keeps_every_promise(window: int, reports_usage: bool) -> None:
    figures = replay(window, reports_usage=reports_usage, every=1)
    show(window, reports_usage, figures)
    assert set(figures.cannot_fit) <= set(figures.over_window)
    assert figures.largest_view <= window


@needs_data
@pytest.mark.parametrize("reports_usage", [False, True], ids=["estimated", "usage reported"])
@pytest.mark.parametrize("window", WINDOWS[:2])
def test_a_sample_of_the_conversations_keeps_every_promise(window: int, reports_usage: bool) -> None:
    figures = replay(window, reports_usage=reports_usage, every=SAMPLE_EVERY)
    show(window, reports_usage, figures)
    assert figures.largest_view <= window
