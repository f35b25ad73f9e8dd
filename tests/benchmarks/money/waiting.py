"""Seconds that an agent waits for summaries, with and without `background=True`, in simulated time.

    python -m tests.benchmarks.money.waiting [--window 200000 64000] [--summary 30] [--call 10] [--data FOLDER | --public]

Each recorded conversation that is compacted is played call by call. A summary takes `--summary` seconds, and from one call to the
next pass `--call` seconds for the model and its tools. *Taken* are the summaries written in the background that a call made active,
*wasted* the input tokens of those that no call used; one that waits at the end of a conversation is in neither. No model is asked.
"""

import argparse
import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    ContextOverflowError,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.tokens import CharacterEstimator
from tests.benchmarks.lossy_model import lossy_summary
from tests.benchmarks.money.conversations import FORMAT, Conversation, conversations
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

GRACE_SECONDS = 0.05
"""A call that has not returned after this real time, while a summary is under way, waits for it."""
LEAST_RATIO = 0.5
"""The part of the window that a conversation must have to be played; what is told is of those that are compacted."""
_IN_A_CALL = ContextVar("in a call", default=False)
ESTIMATOR = CharacterEstimator()


class Played(NamedTuple):
    """One conversation.

    Attributes:
        begun: Summaries that were written in the background, without one that waits at the end of the conversation.
        taken: Those of them that a call made active.
        spent, wasted: Input tokens of all summaries, and of those that no call used.
    """

    waited: float
    summaries: int
    begun: int
    taken: int
    spent: int
    wasted: int


class Player:
    """An agent in simulated time."""

    def __init__(self, window: int, summary_seconds: float, call_seconds: float, *, background: bool) -> None:
        self.seconds = self.waited = 0.0
        self._summary_seconds, self._call_seconds = summary_seconds, call_seconds
        self._pending: list[tuple[float, asyncio.Event]] = []
        self._asked_by_calls = self._begun = 0
        self._finished: list[CompactionFinished] = []
        self._session: Any = CompactionController(
            context_window=window,
            format=FORMAT,
            summarizer=self._summarize,
            background=background,
            on_event=self._note,
            clock=lambda: Instant(datetime.now(UTC), self.seconds),
        ).session("waiting")

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFinished) and event.usage is not None:
            self._finished.append(event)

    async def _summarize(self, request: SummaryRequest) -> Summary:
        if _IN_A_CALL.get():
            self._asked_by_calls += 1
        else:
            self._begun += 1
        ready = asyncio.Event()
        self._pending.append((self.seconds + self._summary_seconds, ready))
        tokens = ESTIMATOR.estimate_tokens(request.system) + ESTIMATOR.estimate_tokens(request.prompt)
        await ready.wait()
        text = lossy_summary(request)
        return Summary(text=text, usage=Usage(input_tokens=tokens, output_tokens=ESTIMATOR.estimate_tokens(text)))

    async def play(self, conversation: Conversation) -> Played:
        _IN_A_CALL.set(True)
        for index in conversation.calls:
            self.seconds += self._call_seconds
            await self._release(self.seconds)
            call = asyncio.create_task(self._session.transform_context(list(conversation.messages[:index])))
            while not call.done():
                await asyncio.wait({call}, timeout=GRACE_SECONDS)
                if not call.done() and self._pending:
                    until = min(due for due, _ in self._pending)
                    self.waited += max(0.0, until - self.seconds)
                    self.seconds = max(self.seconds, until)
                    await self._release(self.seconds)
            if isinstance(call.exception(), ContextOverflowError):
                break
            await call
            await self._settle()
        spent = self._session.state().summary_usage.input_tokens
        used = sum(event.usage.input_tokens for event in self._finished if event.usage)
        taken = len(self._finished) - self._asked_by_calls
        left = self._session.engine.conversation.background.find(self._session.engine.conversation.newest_snapshot)
        if left is not None:
            spent -= left.usage.input_tokens
        return Played(self.waited, len(self._finished), self._begun - bool(left), taken, spent, spent - used)

    async def _release(self, until: float) -> None:
        """Let the summaries answer that are ready by then."""
        for due, ready in [*self._pending]:
            if due <= until:
                self._pending.remove((due, ready))
                ready.set()
        await self._settle()

    async def _settle(self) -> None:
        """Wait until what runs in the background waits for its summary."""
        background = self._session.engine.conversation.background
        while background.running is not None and not self._pending:  # noqa: ASYNC110 - either of two things ends it
            await asyncio.sleep(0.001)


def rows(
    played: Sequence[Conversation], windows: Sequence[int], summary: float, call: float
) -> Iterator[tuple[object, ...]]:
    """Yield two rows for each window."""
    for window in windows:
        for background in (False, True):
            each = [
                asyncio.run(Player(window, summary, call, background=background).play(one))
                for one in played
                if one.tokens > LEAST_RATIO * window
            ]
            ran = [one for one in each if one.summaries]
            begun = sum(one.begun for one in ran)
            taken = f"{sum(one.taken for one in ran) / begun:.0%} of {begun}" if begun else "-"
            wasted = sum(one.wasted for one in ran) / max(1, sum(one.spent for one in ran))
            waits = sorted(one.waited for one in ran)
            name = f"{window:,}, {'in the background' if background else 'in the call'}"
            seconds = [f"{value:,.0f}" for value in (median(waits or [0]), max(waits or [0]), sum(waits))]
            yield name, len(ran), sum(one.summaries for one in ran), *seconds, taken, f"{wasted:.0%}"


def main() -> None:
    """Print the table."""
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=(200_000, 64_000), help="in tokens")
    parser.add_argument("--summary", type=float, default=30.0, help="seconds that a summary takes")
    parser.add_argument("--call", type=float, default=10.0, help="seconds from one call to the next")
    add_data_options(parser)
    chosen = parser.parse_args()
    recorded = [*conversations(chosen.data, 0)]
    columns = ("window", "conversations", "summaries", "seconds waited, median", "most", "all", "taken", "wasted input")
    print_table(columns, rows(recorded, chosen.window, chosen.summary, chosen.call))


if __name__ == "__main__":
    main()
