"""What is kept in memory beside the host's messages, and what one call allocates.

    python -m tests.benchmarks.memory [--messages 10000]

Measured with tracemalloc, which counts the bytes that Python's allocator was asked for while it ran. The messages are made before
it starts, so that what the host holds is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TypeAlias

from compaction_hooks import CompactionController, CompactionSession, CompactionSettings, Summarizer, SummaryRequest
from compaction_hooks.messages import Message
from tests.benchmarks import history

Chat: TypeAlias = Mapping[str, object]

HUGE_WINDOW = 1_000_000_000  # tokens; nothing is ever due
WINDOW = 200_000
KEPT_TOKENS = 10_000
CALLS = 32
SEEDS = 5  # conversations of which the worst is told
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)  # of the program, not of one conversation


@dataclass(slots=True)
class Traced:
    """What a block of code allocated, in bytes: what is left of it at its end, and the most at any moment."""

    left: int = 0
    peak: int = 0


@contextmanager
def traced() -> Generator[Traced]:
    """Measure what the block under `with` allocates."""
    found = Traced()
    gc.collect()
    tracemalloc.start()
    try:
        yield found
        found.peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        found.left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def grow(count: int, seed: int = 0) -> list[Chat]:
    """Return a realistic conversation of so many messages."""
    return [*history.grow(count, seed=seed)]


def instant(request: SummaryRequest) -> str:
    """Summarise at once: a text of some length, the same for every request."""
    return "## Goal\n" + "Port the parser.\n" * 40


def reading(request: SummaryRequest) -> str:
    """Summarise at once, having read the prompt as a model does."""
    assert request.prompt
    return instant(request)


def opened(window: int = HUGE_WINDOW, summarizer: Summarizer | None = instant) -> CompactionSession[Chat]:
    """Return a session of a new controller that summarises whenever something is due."""
    settings = CompactionSettings(clear_tool_results=False)
    return CompactionController(context_window=window, summarizer=summarizer, settings=settings).session("one")


def handed_over(session: CompactionSession[Chat], messages: Sequence[Chat], step: int = 20) -> list[Chat]:
    """Hand a list over that grows by `step` messages a call, as an agent does, and return it at its end."""
    live: list[Chat] = []
    for start in range(0, len(messages), step):
        live += messages[start : start + step]
        session.transform_context_sync(live)
    return live


def reachable(*roots: object, without: Mapping[int, object] | None = None) -> dict[int, object]:
    """Return by id whatever the roots hold, directly or not, but for `without` and what belongs to the program."""
    found: dict[int, object] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in found or isinstance(value, _SHARED) or (without is not None and id(value) in without):
            continue
        found[id(value)] = value
        waiting += gc.get_referents(value)
    return found


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `most` is what it may be at most, in the same unit."""

    name: str
    value: float
    unit: str
    most: float | None = None

    def row(self) -> str:
        """The line as Markdown."""
        limit, verdict = (
            ("", "") if self.most is None else (f"{self.most:,.0f}", "yes" if self.value <= self.most else "NO")
        )
        return f"| {self.name} | {self.value:,.1f} | {self.unit} | {limit} | {verdict} |"


def state_per_message(count: int) -> Iterator[Figure]:
    """What a session holds of messages, by tracemalloc and by walking it; and of messages that a record covers."""
    messages = grow(count)
    with traced() as grown:
        session = opened()
        live = handed_over(session, messages)
    yield Figure("state beside the messages", (grown.left - sys.getsizeof(live)) / count, "B/message", 400)
    kinds: Counter[str] = Counter()
    for value in reachable(session, without=reachable(live)).values():
        kinds[type(value).__name__] += sys.getsizeof(value)
    yield Figure("the same, by walking what the session holds", kinds.total() / count, "B/message")
    for kind, size in kinds.most_common(6):
        yield Figure(f"&nbsp;&nbsp;of it {kind}", size / count, "B/message")
    opened().compact_sync(messages[:200])  # what is imported and compiled on first use stays for the whole process
    yield Figure("after many compactions, records left out", _after_growth(count) / count, "B/message", 400)


def _after_growth(count: int) -> int:
    """State of a session, its records left out, whose list grew to `count` messages in a window of 200k tokens, in bytes."""
    messages = grow(count)
    with traced() as held:
        session = opened(WINDOW)
        live = handed_over(session, messages)
    assert session.state().compaction_count > 1
    return held.left - sys.getsizeof(live) - _record_bytes(session, messages)


def _record_bytes(session: CompactionSession[Chat], messages: list[Chat]) -> int:
    """What the records themselves hold, which is what a store would hold of them."""
    records = session.engine.conversation.records.all
    return sum(map(sys.getsizeof, reachable(records, without=reachable(messages)).values()))


async def _nothing_due(session: CompactionSession[Chat], live: list[Chat]) -> Traced:
    await session.transform_context(live)
    with traced() as calls:
        for _ in range(CALLS):
            await session.transform_context(live)
    return calls


def nothing_due(count: int) -> Iterator[Figure]:
    """What calls with nothing to do allocate at their peak, before and after a compaction."""
    session, messages = opened(), grow(count)
    handed_over(session, messages)
    yield Figure(f"calls with nothing due, {count} live", asyncio.run(_nothing_due(session, messages)).peak, "B", 4_096)
    session.compact_sync(messages, keep_recent_tokens=KEPT_TOKENS)
    yield Figure(f"the same once {count} were compacted", asyncio.run(_nothing_due(session, messages)).peak, "B", 4_096)


def compaction_peak(name: str, summarizer: Summarizer | None) -> Iterator[Figure]:
    """The most that one compaction of a full window of 200k tokens allocates, in the worst of `SEEDS` conversations.

    For each byte of the transcripts that a model would be shown; and of the messages that they are made of, in which long results
    are whole: a summariser that needs no model reads those.
    """
    ratios = [_compaction_peak(summarizer, seed) for seed in range(SEEDS)]
    shown, covered = (max(ratio) for ratio in zip(*ratios, strict=True))
    yield Figure(f"peak of a compaction, {name}", shown, "x transcript", None if summarizer is None else 2)
    yield Figure("&nbsp;&nbsp;the same", covered, "x what is summarised", 2)


def _compaction_peak(summarizer: Summarizer | None, seed: int) -> tuple[float, float]:
    messages = grow(4_000, seed)
    shown: list[int] = []
    covered: list[int] = []

    def measuring(request: SummaryRequest) -> str:
        shown.append(len(request.transcript.encode()))
        covered.append(sum(len(text.encode()) for message in request.messages for text in _texts(message)))
        return instant(request)

    plain, measured = opened(WINDOW, summarizer), opened(WINDOW, measuring)
    count = 0
    while not shown:
        plain.transform_context_sync(messages[:count])
        count += 20
        measured.transform_context_sync(messages[:count])
    with traced() as call:
        plain.transform_context_sync(messages[:count])
    assert plain.state().compaction_count == 1
    return call.peak / sum(shown), call.peak / sum(covered)


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield getattr(part, "text", "") + getattr(part, "arguments", "")


def table(count: int) -> Iterator[Figure]:
    """Every figure of the table."""
    for part in (state_per_message, nothing_due):
        yield from part(count)
    _compaction_peak(None, 0)  # what is compiled on first use stays for the whole process
    yield from compaction_peak("instant summariser", instant)
    yield from compaction_peak("summariser that reads the prompt", reading)
    yield from compaction_peak("default summariser, which makes no transcript", None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000)
    print("| what | measured | unit | at most | met |\n|---|--:|---|--:|---|")
    for figure in table(parser.parse_args().messages):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()
