"""A real controller, async or sync, driven through a fault, and checks of the guarantees that hold after every fault.

After each: the view is valid, holds the current request and the system messages, and fits or is the host's own list, reported by
an event; the host's list is unchanged; no compaction is left under way, no lock held, no task running, and at most one daemon
thread if a helper hangs that cannot be interrupted.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from compaction_hooks import (
    CompactionController,
    CompactionFailed,
    CompactionOutcome,
    CompactionSession,
    CompactionSettings,
    CompactionSkipped,
    SummaryRequest,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import worsened
from tests.conversations import steps, system, talk, user

Chat = Mapping[str, Any]
Side = Literal["async", "sync"]
SIDES: tuple[Side, ...] = ("async", "sync")
Path = Literal["threshold", "over the window", "manual", "recover"]
PATHS: tuple[Path, ...] = ("threshold", "over the window", "manual", "recover")

WINDOW = 8_192
OVERFLOW = ValueError(
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
)
"""OpenAI's words, as the error of a host's own call."""

T = TypeVar("T")


class PanicError(BaseException):
    """As modules made with pyo3 raise it."""


def above_threshold() -> list[Chat]:
    """Return a list above the threshold of `WINDOW`, and inside the window, so that it may be sent as it is."""
    return [system(), *talk(15)]


def over_window() -> list[Chat]:
    return [system(), user("Port the parser."), *steps(30, 400)]


def list_for(path: Path) -> list[Chat]:
    return over_window() if path == "over the window" else above_threshold()


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.utc = datetime(2026, 2, 10, 21, 30, tzinfo=UTC)

    def __call__(self) -> Instant:
        return Instant(self.utc, self.seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, back if below zero; the monotonic one goes ahead with it, but never back."""
        self.seconds += max(seconds, 0.0)
        self.utc += timedelta(seconds=seconds)


class Hang:
    """Something that is called and does not come back until it is let go.

    Attributes:
        calls: How often it was entered.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._released = threading.Event()

    def __call__(self, *arguments: object) -> str:
        self.calls += 1
        self._released.wait(60)
        return "- too late"

    async def later(self, *arguments: object) -> str:
        self.calls += 1
        await asyncio.Event().wait()
        raise AssertionError("an event that is never set was set")

    def release(self) -> None:
        self._released.set()


@dataclass
class Rig:
    """A controller in one conversation, everything it tells, and the side it is driven from."""

    side: Side
    hooks: CompactionController[Chat]
    events: list[CompactionEvent]
    clock: Clock
    window: int = WINDOW
    handed_in: list[tuple[list[Chat], list[Chat]]] = field(default_factory=list[tuple[list[Chat], list[Chat]]])

    @property
    def session(self) -> CompactionSession[Chat]:
        return self.hooks.session("default")

    @property
    def failures(self) -> list[str]:
        return [event.error for event in self.events if isinstance(event, CompactionFailed)]

    # -- the four ways in

    def run(self, coroutine: Callable[[], Coroutine[Any, Any, T]], sync: Callable[[], T]) -> T:
        """Run from this rig's side, in a loop of its own; then nothing may run on in the loop."""
        if self.side == "sync":
            return sync()

        async def alone() -> T:
            try:
                return await coroutine()
            finally:
                await no_tasks_left()

        return asyncio.run(alone())

    def transform(self, messages: list[Chat], signal: Any = None) -> list[Chat]:
        self._note(messages)
        view = self.run(
            lambda: self.session.transform_context(messages, signal),
            lambda: self.session.transform_context_sync(messages, signal),
        )
        self.check(messages, view)
        return view

    def compact(self, messages: list[Chat]) -> CompactionOutcome:
        self._note(messages)
        result = self.run(lambda: self.session.compact(messages), lambda: self.session.compact_sync(messages))
        self.check(messages, result.messages)
        return result.outcome

    def recover(self, messages: list[Chat], error: BaseException = OVERFLOW) -> list[Chat]:
        self._note(messages)
        view = self.run(
            lambda: self.session.recover(error, messages), lambda: self.session.recover_sync(error, messages)
        )
        self.check(messages, view)
        assert tokens(view) < tokens(messages), "after an overflow the view is smaller"
        return view

    def call(self, messages: list[Chat], send: Callable[[list[Chat]], Any]) -> Any:
        self._note(messages)

        async def send_later(view: list[Chat]) -> Any:
            await asyncio.sleep(0)
            return send(view)

        answer = self.run(
            lambda: self.session.call(messages, send_later), lambda: self.session.call_sync(messages, send)
        )
        self.check_idle()
        return answer

    def go(self, path: Path, messages: list[Chat] | None = None) -> None:
        """Take one of the paths that return a view, and check the view; a failed attempt is an event."""
        messages = list_for(path) if messages is None else messages
        match path:
            case "threshold" | "over the window":
                self.transform(messages)
            case "manual":
                self.compact(messages)
            case "recover":
                self.recover(messages)

    # -- guarantees

    def _note(self, messages: list[Chat]) -> None:
        self.handed_in.append((messages, list(messages)))

    def check(self, messages: list[Chat], view: list[Chat]) -> None:
        self.check_idle()
        check_view(messages, view, self.events, self.window)

    def check_idle(self) -> None:
        """Check that no compaction is under way, no lock is held, and the host's lists are unchanged."""
        conversation = self.session.engine.conversation
        assert conversation.running is None, "a compaction is left under way"
        assert is_free(conversation.lock), "the conversation's lock is held"
        for messages, before in self.handed_in:
            assert len(messages) == len(before), "the host's list was changed"
            assert all(one is other for one, other in zip(messages, before, strict=True)), "the host's list was changed"


def rig(side: Side, *, window: int = WINDOW, on_event: Any = None, **keywords: Any) -> Rig:
    """Return a rig with a controller made of these keywords, a clock moved by hand, and a summarizer without a model."""
    events: list[CompactionEvent] = []
    clock = Clock()
    keywords.setdefault("clock", clock)
    hooks: CompactionController[Chat] = CompactionController(
        context_window=window, on_event=[events.append, *(on_event or [])], **keywords
    )
    return Rig(side, hooks, events, clock, window)


def check_view(
    messages: Sequence[Chat], view: Sequence[Chat], events: Sequence[CompactionEvent], window: int = WINDOW
) -> None:
    """Check that the view is as valid as the list, has its pinned parts, and fits or is the host's own list with an event."""
    before, after = read(messages), read(view)
    assert not worsened(before, after, "openai_chat"), worsened(before, after, "openai_chat")
    assert view or not messages, "an empty view"
    kept = set(map(id, view))
    assert all(id(m) in kept for m in messages if m["role"] == "system"), "a system message is missing"
    requests = [m for m in messages if m["role"] == "user"]
    is_whole = not requests or id(requests[-1]) in kept or is_shortened(requests[-1], view)
    assert is_whole, "the current request is missing"
    if view is not messages:
        assert tokens(view) < tokens(messages), "a compacted view is smaller"
    if tokens(view) > window:
        assert view is messages or [*view] == [*messages], "a list that does not fit is the host's own"
        # Nothing to do about it was tried, or the caller gave up: both are said.
        assert any(
            (isinstance(event, CompactionFailed) and event.is_over_window)
            or (isinstance(event, CompactionSkipped) and event.why == "aborted")
            for event in events
        ), "a list above the window is handed out silently"


def is_shortened(request: Chat, view: Sequence[Chat]) -> bool:
    """Return whether a request larger than the window is in the view in a shortened form, with the marker."""
    beginning = str(request["content"])[:200]
    texts = [str(m["content"]) for m in view if m["role"] == "user"]
    return any(text.startswith(beginning) and "left out" in text for text in texts)


_FORMAT = OpenAIChatFormat()
_ESTIMATOR = CharacterEstimator()


def read(messages: Sequence[Chat]) -> list[Message]:
    return [piece for message in messages for piece in _FORMAT.read(message)]


def tokens(messages: Sequence[Chat]) -> int:
    return sum(map(_ESTIMATOR.estimate_message_tokens, read(messages)))


# -- leaks


def is_free(lock: Any) -> bool:
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


async def no_tasks_left() -> None:
    """A cancelled task needs a few rounds of the loop to end; after them only the caller's own is there."""
    for _ in range(10):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks run on: {left}"


def helper_threads() -> list[threading.Thread]:
    """Return the threads that run a host's function; the helper loop's thread stays for later calls."""
    return [thread for thread in threading.enumerate() if thread.name.endswith("-helper")]


@contextmanager
def leaving_threads(most: int = 0) -> Generator[None]:
    """Check that a with block leaves at most so many daemon threads behind; threads that are about to end are waited for."""
    before = set(threading.enumerate())
    yield
    new = [thread for thread in threading.enumerate() if thread not in before]
    assert all(thread.daemon for thread in new if thread.name.startswith("compaction-")), (
        "a thread keeps the program alive"
    )
    new = [thread for thread in new if thread.name != "compaction-loop"]
    if len(new) > most:
        for thread in new:
            thread.join(0.2)
    left = [thread for thread in new if thread.is_alive()]
    assert len(left) <= most, f"threads run on: {left}"


# -- walkers


class CancelledAt:
    """A coroutine run in the current task, which is cancelled at its n-th point of waiting; 0: never.

    Attributes:
        waits: Points so far.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, object], at: int) -> None:
        self._coroutine = coroutine
        self._at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        error: BaseException | None = None
        while True:
            try:
                awaited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._at:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            error = None
            try:
                yield awaited
            except BaseException as raised:  # noqa: BLE001 - handed on to the coroutine, as without this class
                error = raised


def effects_with(flow: Any, at: int, act: Callable[[], None], seen: list[object]) -> Generator[Any, Any, Any]:
    """A flow that is `flow`, but for an act before its `at`-th effect; `seen` collects the effects."""
    answer: object = None
    try:
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as end:
                given: object = end.value
                return given
            seen.append(effect)
            if len(seen) == at:
                act()
            answer = yield effect
    finally:
        flow.close()


def fallback_settings(**more: Any) -> CompactionSettings:
    """Return settings with which every compaction asks for a summary."""
    return CompactionSettings(clear_tool_results=False, **more)


def works(request: SummaryRequest) -> str:
    return "## Goal\n- port the parser"


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*arguments: object) -> Any:
        raise error

    return fail
