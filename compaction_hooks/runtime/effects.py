"""What a flow asks of the world. A driver answers each effect and hands the answer back; no effect raises into the flow."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from compaction_hooks.messages import M

if TYPE_CHECKING:  # slow to import, and needed only when something is due
    from concurrent.futures import Future
    from datetime import datetime

    from compaction_hooks.events import CompactionEvent
    from compaction_hooks.summary.summarizers import SummaryRequest

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


class Summarize(NamedTuple):
    """Asks the summariser for so many seconds at most; answered by `Success`, `Failure` or `Aborted`."""

    request: SummaryRequest
    seconds: float


def _new_future() -> Future[Outcome]:
    """A future that no waiter can cancel for the others: one that runs already."""
    from concurrent.futures import Future

    future: Future[Outcome] = Future()
    future.set_running_or_notify_cancel()
    return future


class InFlight:
    """A compaction under way, on which other callers of the same conversation wait. After a fork the child has no leader of it."""

    def __init__(self) -> None:
        self.done = _new_future()
        self.pid = os.getpid()


Outcome: TypeAlias = Literal["settled", "failed", "aborted"]


class Wait(NamedTuple):
    """Waits for somebody else's compaction; answered by its `Outcome`.

    "aborted" when the caller's own signal was set meanwhile, "failed" when waiting would block the loop that leads it,
    when nobody leads it here any longer, and when it takes too long.
    """

    flight: InFlight


class Load(NamedTuple):
    """Asks for the stored records of a session; answered by `Success` with their texts, or `Failure`."""

    session_id: str


class Write(NamedTuple):
    """Stores a record, or removes it where there is no text; answered by `Success` or `Failure`."""

    session_id: str
    record_id: str
    text: str | None = None


class Emit(NamedTuple):
    """Tells the event handlers; answered by None, whatever they do."""

    event: CompactionEvent


class Send(NamedTuple, Generic[M]):
    """Sends a view to the model; answered by `Success` or `Failure`."""

    view: list[M]


class Success(NamedTuple):
    """What the world answered."""

    value: object


class Failure(NamedTuple):
    """What the world raised."""

    error: BaseException


class Aborted:
    """The caller's signal was set first."""


Effect: TypeAlias = Work | Now | IsAborted | Summarize | Wait | Load | Write | Emit | Send[Any]

Flow: TypeAlias = Generator[Effect, Any, T]
"""A computation that yields effects and returns a `T`. The answer's type depends on the effect, so it is not typed here."""
