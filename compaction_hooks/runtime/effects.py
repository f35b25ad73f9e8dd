"""Effects: the requests of a flow to the outside world. A driver answers each one; no effect raises into the flow."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from compaction_hooks.events import CompactionEvent
from compaction_hooks.messages import M
from compaction_hooks.summary.request import SummaryRequest

T = TypeVar("T")


class Work(NamedTuple):
    """Runs a computation that may take long, outside the event loop; answered by its result."""

    function: Callable[[], object]


class Now:
    """Asks for the time; answered by `Instant`."""


class Instant(NamedTuple):
    """Wall clock (UTC) and monotonic seconds."""

    utc: datetime
    monotonic: float

    def seconds_since(self, earlier: Instant) -> float:
        """Return how long ago an instant was, in seconds."""
        return self.monotonic - earlier.monotonic


class IsAborted:
    """Asks whether the caller's signal is set; answered by a bool."""


class AskSummarizer(NamedTuple):
    """Calls the summarizer, with a timeout in seconds; answered by `Success`, `Failure` or `Aborted`."""

    request: SummaryRequest
    seconds: float


class RunningCompaction:
    """A running compaction, for which other callers of the same conversation wait.

    Attributes:
        session_id: The conversation, for the log.
        pid: The process in which it runs: not the child of a later fork. None after a wait for it timed out.
        is_in_thread: Whether it runs in a thread of its own, so that a loop may wait for it.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.done: Future[Outcome] = Future()
        self.done.set_running_or_notify_cancel()  # no waiter can cancel it for the others
        self.pid: int | None = os.getpid()
        self.is_in_thread = False


Outcome: TypeAlias = Literal["settled", "failed", "aborted", "asking"]


class AskHost(NamedTuple):
    """Calls a function of the host that a compaction asks, with a timeout in seconds; answered by `Success` or `Failure`.

    Attributes:
        running: The compaction that asks: a call into its conversation from within the function waits for nothing.
    """

    function: Callable[[Any], object]
    request: object
    seconds: float
    running: RunningCompaction | None


class Wait(NamedTuple):
    """Waits for another caller's compaction; answered by its `Outcome`.

    "aborted" if the caller's own signal was set meanwhile; "failed" if the wait would block the loop that runs it, if it does
    not run in this process, or if it takes too long. "asking" if a function of the host waits that this very compaction asks.
    """

    running: RunningCompaction


class Begin(NamedTuple):
    """Begins a flow beside this one, in a task or a thread of its own, without anything of the caller's: neither its signal and
    handlers nor its context variables.

    Answered by whether it was begun: not without a summarizer that outlives the call.

    Attributes:
        running: Ends with it, however it ends.
    """

    flow: Generator[Any, Any, None]
    running: RunningCompaction


class AskStore(NamedTuple):
    """Calls a method of the store; answered by `Success`, with a tuple if the method returns texts, or `Failure`."""

    method: Literal["load", "append", "remove", "session_ids"]
    arguments: tuple[str, ...]


class Emit(NamedTuple):
    """Calls the event handlers; answered by None, also if they fail."""

    event: CompactionEvent


class Send(NamedTuple, Generic[M]):
    """Sends a view to the model; answered by `Success` or `Failure`."""

    view: list[M]


class Success(NamedTuple):
    """The value that a function of the host returned."""

    value: object


class Failure(NamedTuple):
    """The error that a function of the host raised."""

    error: BaseException


class Aborted:
    """The answer of an effect that the caller's signal ended."""


Effect: TypeAlias = Work | Now | IsAborted | AskSummarizer | AskHost | Wait | Begin | AskStore | Emit | Send[Any]

Flow: TypeAlias = Generator[Effect, Any, T]
"""A computation that yields effects and returns a `T`. The answer's type depends on the effect, so it is not typed here."""
