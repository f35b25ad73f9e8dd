"""What a flow asks of the world. A driver answers each effect and hands the answer back; no effect raises into the flow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from compaction_hooks.events import CompactionEvent
from compaction_hooks.messages import M

if TYPE_CHECKING:  # slow to import, and needed only when something is due
    from concurrent.futures import Future
    from datetime import datetime

    from compaction_hooks.summary.summarizers import SummaryRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """Runs a computation that may take long, outside the event loop; answered by its result."""

    function: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Now:
    """Asks for the time; answered by `Instant`."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Wall clock (UTC) and monotonic seconds."""

    utc: datetime
    monotonic: float

    def seconds_since(self, earlier: Instant) -> float:
        """Return how long ago an instant was, in seconds."""
        return self.monotonic - earlier.monotonic


@dataclass(frozen=True, slots=True)
class IsAborted:
    """Asks whether the caller's signal is set; answered by a bool."""


@dataclass(frozen=True, slots=True)
class Summarize:
    """Asks the summariser for so many seconds at most; answered by `Answered`, `Failure` or `Aborted`."""

    request: SummaryRequest
    seconds: float


def _landing() -> Future[FlightEnd]:
    """A future that no waiter can cancel for the others: one that runs already."""
    from concurrent.futures import Future

    future: Future[FlightEnd] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A compaction under way, on which other callers of the same conversation wait. After a fork the child has no leader of it."""

    done: Future[FlightEnd] = field(default_factory=_landing)
    thread: int = field(default_factory=threading.get_ident)
    pid: int = field(default_factory=os.getpid)


FlightEnd: TypeAlias = Literal["settled", "failed", "aborted"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for somebody else's compaction; answered by its `FlightEnd`.

    "aborted" when the caller's own signal was set meanwhile, "failed" when waiting would block the loop that leads it,
    when nobody leads it here any longer, and when it takes too long.
    """

    flight: Flight


@dataclass(frozen=True, slots=True)
class Load:
    """Asks for the stored records of a session; answered by `Answered` with their texts, or `Failure`."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Save:
    """Stores a record; answered by `Answered` or `Failure`."""

    session_id: str
    record_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Removes a record; answered by `Answered` or `Failure`."""

    session_id: str
    record_id: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Tells the event handlers; answered by None, whatever they do."""

    event: CompactionEvent


@dataclass(frozen=True, slots=True)
class Send(Generic[M]):
    """Sends a view to the model; answered by `Answered` or `Failure`."""

    view: list[M]


@dataclass(frozen=True, slots=True)
class Answered:
    """What the world answered."""

    value: object


@dataclass(frozen=True, slots=True)
class Failure:
    """What the world raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Aborted:
    """The caller's signal was set first."""


Effect: TypeAlias = Work | Now | IsAborted | Summarize | Wait | Load | Save | Remove | Emit | Send[Any]

Flow: TypeAlias = Generator[Effect, Any, T]
"""A computation that yields effects and returns a `T`. The answer's type depends on the effect, so it is not typed here."""
