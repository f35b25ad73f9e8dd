"""Memory used in addition to the host's messages, and allocations of one call.

    python -m tests.benchmarks.memory [--messages 10000]

Measured with tracemalloc, which counts the bytes allocated while it runs. The messages are made before it starts, so that they
are not counted.
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

HUGE_WINDOW = 1_000_000_000  # in tokens; no compaction is ever due
WINDOW = 200_000
KEPT_TOKENS = 10_000
CALLS = 32
SEEDS = 5  # number of conversations; the worst one is printed
_SHARED = (
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
)  # belong to the program, not to a conversation


@dataclass(slots=True)
class Traced:
    """Allocations of a block of code, in bytes: those left at its end, and the peak."""

    left: int = 0
    peak: int = 0


@contextmanager
def trace() -> Generator[Traced]:
    """Measure the allocations of a with block."""
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
    """Return a realistic conversation of `count` messages."""
    return [*history.grow(count, seed=seed)]


def instant(request: SummaryRequest) -> str:
    """Return the same summary for every request, at once."""
    return "## Goal\n" + "Port the parser.\n" * 40


def reading(request: SummaryRequest) -> str:
    """Return the same summary after building the prompt, as for a model."""
    assert request.prompt
    return instant(request)


def open_session(window: int = HUGE_WINDOW, summarizer: Summarizer | None = instant) -> CompactionSession[Chat]:
    """Return a session of a new controller that summarizes at every compaction."""
    settings = CompactionSettings(clear_tool_results=False)
    return CompactionController(context_window=window, summarizer=summarizer, settings=settings).session("one")


def send_all(session: CompactionSession[Chat], messages: Sequence[Chat], step: int = 20) -> list[Chat]:
    """Send a list that grows by `step` messages a call, as an agent's does, and return the whole list."""
    live: list[Chat] = []
    for start in range(0, len(messages), step):
        live += messages[start : start + step]
        session.transform_context_sync(live)
    return live


def reachable(*roots: object, without: Mapping[int, object] | None = None) -> dict[int, object]:
    """Return by id all objects reachable from the roots, except `without` and the program's own."""
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
    """One line of the table; `most` is the limit, in the same unit."""

    name: str
    value: float
    unit: str
    most: float | None = None

    def row(self) -> str:
        """Return the line as Markdown."""
        limit, verdict = (
            ("", "") if self.most is None else (f"{self.most:,.0f}", "yes" if self.value <= self.most else "NO")
        )
        return f"| {self.name} | {self.value:,.1f} | {self.unit} | {limit} | {verdict} |"


def state_per_message(count: int) -> Iterator[Figure]:
    """Yield the state for each message, by tracemalloc and by walking the session; also after compactions."""
    messages = grow(count)
    with trace() as grown:
        session = open_session()
        live = send_all(session, messages)
    yield Figure("state beside the messages", (grown.left - sys.getsizeof(live)) / count, "B/message", 400)
    kinds: Counter[str] = Counter()
    for value in reachable(session, without=reachable(live)).values():
        kinds[type(value).__name__] += sys.getsizeof(value)
    yield Figure("the same, by walking what the session holds", kinds.total() / count, "B/message")
    for kind, size in kinds.most_common(6):
        yield Figure(f"&nbsp;&nbsp;of it {kind}", size / count, "B/message")
    open_session().compact_sync(
        messages[:200]
    )  # imports and compiled patterns of the first use stay for the whole process
    yield Figure("after many compactions, records left out", _after_growth(count) / count, "B/message", 400)


def _after_growth(count: int) -> int:
    """Return the bytes of a session without its records, after its list grew to `count` messages in a window of 200k tokens."""
    messages = grow(count)
    with trace() as held:
        session = open_session(WINDOW)
        live = send_all(session, messages)
    assert session.state().compaction_count > 1
    return held.left - sys.getsizeof(live) - _record_bytes(session, messages)


def _record_bytes(session: CompactionSession[Chat], messages: list[Chat]) -> int:
    """Return the bytes of the records, as a store would keep them."""
    records = session.engine.conversation.records.all
    return sum(map(sys.getsizeof, reachable(records, without=reachable(messages)).values()))


async def _nothing_due(session: CompactionSession[Chat], live: list[Chat]) -> Traced:
    await session.transform_context(live)
    with trace() as calls:
        for _ in range(CALLS):
            await session.transform_context(live)
    return calls


def nothing_due(count: int) -> Iterator[Figure]:
    """Yield the peak allocation of calls with nothing due, before and after a compaction."""
    session, messages = open_session(), grow(count)
    send_all(session, messages)
    yield Figure(f"calls with nothing due, {count} live", asyncio.run(_nothing_due(session, messages)).peak, "B", 4_096)
    session.compact_sync(messages, keep_recent_tokens=KEPT_TOKENS)
    yield Figure(f"the same once {count} were compacted", asyncio.run(_nothing_due(session, messages)).peak, "B", 4_096)


def compaction_peak(name: str, summarizer: Summarizer | None) -> Iterator[Figure]:
    """Yield the peak allocation of a compaction of a full window of 200k tokens, in the worst of `SEEDS` conversations.

    It is given for each byte of the transcripts for a model, and of their messages with long results in full, which a summarizer
    without a model reads.
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

    plain, measured = open_session(WINDOW, summarizer), open_session(WINDOW, measuring)
    count = 0
    while not shown:
        plain.transform_context_sync(messages[:count])
        count += 20
        measured.transform_context_sync(messages[:count])
    with trace() as call:
        plain.transform_context_sync(messages[:count])
    assert plain.state().compaction_count == 1
    return call.peak / sum(shown), call.peak / sum(covered)


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield getattr(part, "text", "") + getattr(part, "arguments", "")


def table(count: int) -> Iterator[Figure]:
    """Yield every figure of the table."""
    for part in (state_per_message, nothing_due):
        yield from part(count)
    _compaction_peak(None, 0)  # patterns compiled on first use stay for the whole process
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
