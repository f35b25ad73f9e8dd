"""Many concurrent conversations on one controller, in threads and event loops; each looks for words of the others."""

import asyncio
import gc
import json
import random
import re
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compaction_hooks import CompactionController, SummaryRequest
from compaction_hooks.stores import MemoryStore, SQLiteStore
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.tokens.estimator import WHOLE_CHARS
from tests.conversations import assistant, call, prose, system, tool, user

Chat = Mapping[str, Any]
Controller = CompactionController[Mapping[str, object]]

CONVERSATIONS = 64
WINDOW = 4_096
LOOPS = 4
"""Number of threads with an event loop; as many other threads use the sync methods, one call of each conversation in turn."""
ASYNC_SHARE = 0.75
"""Share of the conversations in event loops."""
RESULT_TOKENS = (20, 60, 150, 400)
LONGEST_SECONDS = 900
MARK = re.compile(r"mark-\d+-\d+;")


def marks(text: str) -> set[str]:
    return set(MARK.findall(text))


class Echo:
    """A sync summarizer that returns the marks in its request."""

    def __init__(self) -> None:
        self.requests = 0

    def answer(self, request: SummaryRequest) -> str:
        self.requests += 1
        seen = marks(request.prompt + request.transcript + (request.previous_summary or ""))
        return "## Goal\n- " + " ".join(sorted(seen))

    def __call__(self, request: SummaryRequest) -> str:
        return self.answer(request)


class AsyncEcho(Echo):
    async def __call__(self, request: SummaryRequest) -> str:  # type: ignore[override]
        await asyncio.sleep(0)
        return self.answer(request)


@dataclass
class Seen:
    """Results of all conversations.

    Attributes:
        wrong: Violations, each with its conversation.
        memory: Bytes used by Python objects after each round.
        peaks: The most bytes used during each round.
    """

    calls: int = 0
    conversations: int = 0
    wrong: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def memory_growth(self) -> int:
        """Bytes after the last round minus those after half of them, when the number of kept sessions has reached its limit."""
        return self.memory[-1] - self.memory[len(self.memory) // 2 - 1]

    @property
    def peak_growth(self) -> float:
        """Growth of the later rounds' peak over the first round's, as a share of the first."""
        return max(self.peaks[1:]) / self.peaks[0] - 1


class Talk:
    """The host's side of one conversation: adds messages, and checks that the view is its own."""

    def __init__(self, place: int, number: int, seen: Seen) -> None:
        self.id = f"talk-{place}-{number}"
        self._mark = f"mark-{place}-{number};"
        self._random = random.Random(self.id)
        self._seen = seen
        self._steps = 0
        self._size = CharacterEstimator().estimate_tokens
        self.messages: list[Chat] = [system(f"You work on {self._mark}"), user(f"The task of {self._mark}")]

    def advance(self) -> None:
        """Add an answer with its tool's result, or with the user's next request."""
        self._steps += 1
        text = f"{self._mark} step {self._steps}. {prose(self._random.choice(RESULT_TOKENS))}"
        if self._random.random() < 0.2:
            self.messages += [assistant(f"{self._mark} done"), user(f"Next, {text}")]
        else:
            name = f"call-{self._steps}"
            self.messages += [assistant(self._mark, call(name, "read", path=self._mark)), tool(name, text)]

    def check(self, view: list[Mapping[str, object]]) -> None:
        """Record violations in a view: words of others, its own request or newest message missing, too large."""
        text = json.dumps(view)
        request = next(message for message in reversed(self.messages) if message["role"] == "user")
        places = {id(message) for message in view}
        size = sum(self._size(text[at : at + WHOLE_CHARS]) for at in range(0, len(text), WHOLE_CHARS))
        violations = [
            f"words of {sorted(marks(text) - {self._mark})}" * bool(marks(text) - {self._mark}),
            "no words of its own" * (self._mark not in text),
            "its request is missing" * (id(request) not in places),
            "its newest message is missing" * (view[-1] is not self.messages[-1]),
            f"{size} tokens" * (size > WINDOW),
        ]
        with self._seen.lock:
            self._seen.calls += 1
            self._seen.wrong += [
                f"{self.id} after {self._steps} steps: {violation}" for violation in violations if violation
            ]


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """`CONVERSATIONS` concurrent conversations; when one ends, the next begins in its place.

    Attributes:
        on_end: Called with the id of a conversation that ended.
    """

    controller: Controller
    summarizer: Echo
    on_end: Callable[[str], object]

    def run(self, *, rounds: int, calls: int, length: int) -> Seen:
        """Run all rounds; after each, all threads and tasks have ended and memory is measured.

        Args:
            calls: Model calls of each place in a round.
            length: Model calls of one conversation.
        """
        seen = Seen()
        threads = threading.active_count()
        tracemalloc.start()
        try:
            for number in range(rounds):
                tracemalloc.reset_peak()
                self._round(range(number * calls, (number + 1) * calls, length), seen)
                gc.collect()
                now, peak = tracemalloc.get_traced_memory()
                seen.memory.append(now)
                seen.peaks.append(peak)
        finally:
            tracemalloc.stop()
        if threading.active_count() > threads:
            seen.wrong.append(f"threads left behind: {threading.enumerate()}")
        return seen

    def _round(self, starts: range, seen: Seen) -> None:
        in_loops = int(CONVERSATIONS * ASYNC_SHARE)
        shares = [(self._in_loop, range(part, in_loops, LOOPS)) for part in range(LOOPS)]
        shares += [(self._in_thread, range(in_loops + part, CONVERSATIONS, LOOPS)) for part in range(LOOPS)]
        with ThreadPoolExecutor(len(shares)) as pool:
            for future in [pool.submit(work, places, starts, seen) for work, places in shares]:
                future.result(LONGEST_SECONDS)

    def _talks(self, place: int, starts: range, seen: Seen) -> Iterator[Talk]:
        """Yield one talk after the other, each once for every call."""
        for start in starts:
            talk = Talk(place, start, seen)
            for _ in range(starts.step):
                talk.advance()
                yield talk
            self.on_end(talk.id)
            with seen.lock:
                seen.conversations += 1

    def _in_loop(self, places: range, starts: range, seen: Seen) -> None:
        asyncio.run(self._tasks(places, starts, seen))

    async def _tasks(self, places: range, starts: range, seen: Seen) -> None:
        await asyncio.gather(*(self._task(place, starts, seen) for place in places))
        if len(asyncio.all_tasks()) > 1:
            seen.wrong.append(f"tasks left behind: {asyncio.all_tasks()}")

    async def _task(self, place: int, starts: range, seen: Seen) -> None:
        for talk in self._talks(place, starts, seen):
            session = self.controller.session(talk.id)
            view = await session.transform_context(talk.messages)
            talk.check(view)
            await asyncio.sleep(0)

    def _in_thread(self, places: range, starts: range, seen: Seen) -> None:
        for talks in zip(*(self._talks(place, starts, seen) for place in places), strict=True):
            for talk in talks:
                talk.check(self.controller.session(talk.id).transform_context_sync(talk.messages))


def crowd_with_file(path: Path) -> Crowd:
    """Return a crowd with records in a SQLite file; ended conversations are evicted."""
    echo = AsyncEcho()
    controller = CompactionController(context_window=WINDOW, summarizer=echo, store=SQLiteStore(path))
    return Crowd(controller=controller, summarizer=echo, on_end=lambda id: None)


def crowd_with_memory() -> Crowd:
    """Return a crowd with records in memory; the host removes those of an ended conversation and closes it."""
    echo, store = Echo(), MemoryStore()
    controller = CompactionController(context_window=WINDOW, summarizer=echo, store=store)

    def forget(id: str) -> None:
        for record in controller.session(id).export_records():
            store.remove(id, str(record["id"]))
        controller.close(id)

    return Crowd(controller=controller, summarizer=echo, on_end=forget)
