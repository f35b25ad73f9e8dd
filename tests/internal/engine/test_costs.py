"""The cost of a call, counted and not timed: calls of functions, messages read, characters estimated, bytes allocated.

`nox -s benchmark` compares seconds with other libraries; these counts are the same on every machine.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from compaction_hooks.digest.outline import Section
from compaction_hooks.messages import Message, Usage
from compaction_hooks.tokens import CharacterEstimator
from tests.benchmarks.history import grow
from tests.cases import sampled
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    CountingFormat,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    tokens_of,
    tool,
    user,
)

HUGE_WINDOW = 100_000_000
UNCAPPED = CompactionSettings(trigger_cap_tokens=None)


def count_calls(hooks: Controller, messages: list[Chat]) -> int:
    """Return the number of functions, of Python and of C, called for one view."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # it may find objects whose destructors call functions
    sys.setprofile(note)
    try:
        hooks.transform_context_sync(messages)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def measure_allocated(act: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes still allocated after `act`, and the most allocated during it."""
    gc.collect()
    tracemalloc.start()
    try:
        act()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return tracemalloc.get_traced_memory()[0], peak
    finally:
        tracemalloc.stop()


def conversation(messages: int) -> list[Chat]:
    return [system(), user("Port the parser."), *steps(messages // 2 - 1, 40)]


def rows_without_files(messages: int) -> list[Chat]:
    """Return steps that touch no file, since a record remembers each file."""
    answers = (
        (assistant(None, call(f"c{n}", "count_rows", table=n)), tool(f"c{n}", prose(40))) for n in range(messages // 2)
    )
    return [system(), user("go"), *(message for answer in answers for message in answer)]


def show_growing(hooks: Controller, messages: list[Chat]) -> None:
    """Let a list come in as an agent's does: with a few new messages in each call."""
    for end in range(20, len(messages) + 20, 20):
        hooks.transform_context_sync(messages[:end])


class Counting(CharacterEstimator):
    def __init__(self) -> None:
        object.__setattr__(self, "chars", 0)

    chars: int

    def estimate_tokens(self, text: str, /) -> int:
        object.__setattr__(self, "chars", self.chars + len(text))
        return super().estimate_tokens(text)

    def estimate_message_tokens(self, message: Message, /) -> int:
        texts = [getattr(part, "text", "") + getattr(part, "arguments", "") for part in message.parts]
        object.__setattr__(self, "chars", self.chars + sum(map(len, texts)))
        return super().estimate_message_tokens(message)


@pytest.mark.parametrize(
    "listed", sampled([conversation, lambda length: talk(length // 2, 40)], 1), ids=["with tools", "plain text"]
)
def test_a_call_with_nothing_due_calls_as_many_functions_whatever_the_length(
    listed: Callable[[int], list[Chat]],
) -> None:
    """Earlier messages cost one comparison in C, and no call of a function."""
    counts: list[int] = []
    for length in (100, 1_000, 10_000):
        hooks, messages = controller(HUGE_WINDOW, settings=UNCAPPED), listed(length)
        hooks.transform_context_sync(messages)
        counts.append(count_calls(hooks, messages))
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize(
    "added", sampled([steps(1, 40, first=10_000), [user("Go on.")]], 1), ids=["a step", "words of the user"]
)
def test_new_messages_call_as_many_functions_whatever_the_length(added: list[Chat]) -> None:
    counts: list[int] = []
    for length in (100, 100, 10_000):
        hooks, messages = controller(HUGE_WINDOW, settings=UNCAPPED), conversation(length)
        hooks.transform_context_sync(messages)
        counts.append(count_calls(hooks, [*messages, *added]))
    assert counts[1] == counts[2]  # the first call fills the caches


def test_a_text_behind_a_run_costs_a_call_as_much_whatever_is_before_it() -> None:
    counts = list[int]()
    for length in (200, 200, 2_000):
        messages, plain = conversation(length), controller(HUGE_WINDOW, settings=UNCAPPED)
        plain.transform_context_sync(messages)
        nearly = CompactionSettings(trigger_tokens=int(tokens_of(plain) / 0.9))
        hooks = controller(HUGE_WINDOW, settings=nearly, notice=True)
        assert len(hooks.transform_context_sync(messages)) == length + 1
        hooks.transform_context_sync([*messages, *steps(1, 10, first=length)])
        counts.append(count_calls(hooks, [*messages, *steps(1, 10, first=length)]))
    assert counts[1] == counts[2]


@pytest.mark.full
def test_earlier_compactions_cost_a_call_nothing() -> None:
    counts: list[int] = []
    for compactions in (1, 30):
        hooks, messages = controller(8_192, summarizer=Scripted()), [system(), user("go")]
        while hooks.state().compaction_count < compactions:
            messages += steps(1, 300, first=len(messages))
            hooks.transform_context_sync(messages)
        hooks.transform_context_sync(messages)
        counts.append(count_calls(hooks, messages))
    assert abs(counts[0] - counts[1]) <= 5  # a pin more or less


@pytest.mark.full
@pytest.mark.parametrize("words", ["Go on.", "Never touch module {}, and say so in its header."])
def test_a_later_compaction_costs_no_more_than_an_early_one(words: str) -> None:
    """Neither do the user's words of before, a pin, or the calls that failed before and are told as failing still."""
    answer = f"{Section.BLOCKED.value}\n- `npm test` fails"
    hooks, messages = controller(16_384, summarizer=Scripted(answer)), [system(), user("go")]
    pinned = tool("early", "Keep this.")
    hooks.pin(pinned)
    messages += [assistant(None, call("early")), pinned]
    counts: list[int] = []
    while len(counts) < 24:
        before = hooks.state().compaction_count
        failed = tool(f"f{len(messages)}", "Error: 3 failed" if len(messages) % 3 else "ok")
        ran = [assistant(None, call(f"f{len(messages)}", "bash", command="npm test")), failed]
        messages += [user(words.format(len(messages))), *ran, *steps(1, 300, first=len(messages))]
        count = count_calls(hooks, messages)
        if hooks.state().compaction_count > before:
            counts.append(count)
    assert max(counts[12:]) < 1.2 * max(counts[1:6])  # the first one imports modules


def test_while_the_objects_stay_the_same_no_text_is_estimated_twice() -> None:
    """Not even by compactions: sizes are sums of estimates made when a message came in."""
    estimator, messages = Counting(), conversation(400)
    hooks = CompactionController(context_window=HUGE_WINDOW, estimator=estimator, settings=UNCAPPED)
    show_growing(hooks, messages)
    whole = estimator.chars
    assert whole <= sum(len(str(message)) for message in messages)
    for _ in range(5):
        hooks.transform_context_sync(messages)
        hooks.report_usage(Usage(input_tokens=1_000))
    assert estimator.chars == whole


def test_each_message_is_read_once_and_the_newest_two_again_by_the_next_call() -> None:
    """A host may have written into those since; older ones are the same objects."""
    format, messages = CountingFormat(), conversation(1_000)
    hooks = CompactionController(context_window=HUGE_WINDOW, format=format, settings=UNCAPPED)
    for end in range(20, 1_001, 20):
        hooks.transform_context_sync(messages[:end])
    assert format.reads == len(messages) + 2 * 49


@pytest.mark.full
def test_the_state_takes_at_most_four_hundred_bytes_a_message() -> None:
    messages = conversation(5_000)
    hooks = controller(HUGE_WINDOW, settings=UNCAPPED)
    left, _ = measure_allocated(lambda: show_growing(hooks, messages))
    assert left / len(messages) <= 400


@pytest.mark.full
def test_a_covered_message_takes_no_more() -> None:
    """Not counted: its record, the host's own objects, and the kept messages."""
    sizes: list[int] = []
    for length in (1_000, 5_000):
        messages = rows_without_files(length)
        hooks = CompactionController(
            context_window=HUGE_WINDOW,
            summarizer=lambda _: "- so far",
            settings=replace(PLAIN, trigger_cap_tokens=None),
        )

        def compact(hooks: Controller = hooks, messages: list[Chat] = messages) -> None:
            show_growing(hooks, messages)
            hooks.compact_sync(messages, keep_recent_tokens=1_000)
            hooks.transform_context_sync(messages)

        sizes.append(measure_allocated(compact)[0])
    ((few, many),) = pairwise(sizes)
    assert (many - few) / 4_000 <= 400


@pytest.mark.full
@pytest.mark.parametrize(
    ("read", "identifier_tokens", "most"), [("prompt", 0, 2.5), ("transcript", 0, 2.5), ("prompt", None, 6.0)]
)
def test_the_memory_of_a_compaction_is_some_transcripts(read: str, identifier_tokens: int | None, most: float) -> None:
    """Those of one summarizer's request, the calls that are covered, and the words of all texts if a summary is filled."""
    lengths: list[int] = []
    # An answer in our form needs no sections by rule.
    headings = "\n".join(section.value for section in Section)

    def summarize(request: SummaryRequest) -> str:
        lengths.append(len(getattr(request, read)))
        return f"{headings}\n- so far"

    def open_controller() -> Controller:
        hooks = CompactionController(context_window=HUGE_WINDOW, summarizer=summarize, settings=settings)
        hooks.transform_context_sync(messages)
        return hooks

    settings = CompactionSettings(identifier_tokens=identifier_tokens, trigger_cap_tokens=None)
    messages: list[Chat] = [*grow(400)]
    open_controller().compact_sync(messages)  # objects made once per process do not count
    hooks = open_controller()
    lengths.clear()
    _, peak = measure_allocated(lambda: hooks.compact_sync(messages))
    assert lengths[0] > 100_000
    assert peak <= most * lengths[0] + 20_000, peak / lengths[0]  # and the kept messages and facts in the prompt
