"""What dressers know of one request: the record and the history of its view, and what its provider and model are like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.view.reasoning import ALL_READ, NOT_STALE, UnreadReasoning
from compaction_hooks.view.record import CompactionRecord, StaleRuns
from compaction_hooks.view.references import Beginning, View


class Behind(NamedTuple):
    """A text of ours behind a run of the history.

    Attributes:
        piece: The piece before which it is: the first one behind the run, of a host message of its own (see `find_place`).
    """

    piece: int
    text: str


class Request(NamedTuple, Generic[M]):
    """A request for a view of a history under a record.

    Attributes:
        estimate: Size of one neutral message in tokens, before calibration.
        start: The provider's own summary in the list at which the view begins, or None.
        stale: The runs whose reasoning is left out.
        unread: The reasoning that the provider ignores behind a summary.
        issuer: The API and the model that read the view, if the format can write their items; else None.
        behind: The texts of ours that only the request has, each behind a run.
        earlier: The dressed view of this history before, or of one that it grew from; None without one.
    """

    history: History[M]
    record: CompactionRecord | None
    format: Format[M]
    estimate: Callable[[Message], int]
    start: Beginning | None = None
    stale: StaleRuns = NOT_STALE
    unread: UnreadReasoning = ALL_READ
    issuer: Issuer | None = None
    behind: tuple[Behind, ...] = ()
    earlier: View[M] | None = None

    @property
    def items(self) -> NativeItems | None:
        """The provider's own items in place of the record's summary, if this issuer made them; else None."""
        return self.record.native_for(self.issuer) if self.record is not None else None
