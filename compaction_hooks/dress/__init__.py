"""Dressers: what the provider of one request must see otherwise. Each is one file with its rule, and a pure function of a view.

Their order, with its reason:

1. `begin`: the provider's own summary in the host's list moves the cut, and all others work behind the cut.
2. `leave_out`: reasoning that is no longer behind its own messages goes out of what then stays.
3. `move_mark`: the cache mark of a covered message goes to the summary.
4. `show_items`: the provider's own items take the summary's place late, so that the list to store is this view with the summary.
5. `ignore`: last, since it weighs what all others left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple

from compaction_hooks.dress.begin import begin
from compaction_hooks.dress.ignore import ignore
from compaction_hooks.dress.leave_out import leave_out
from compaction_hooks.dress.move_mark import move_mark
from compaction_hooks.dress.show_items import show_items
from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message
from compaction_hooks.native import Issuer
from compaction_hooks.view.reasoning import ALL_READ, NOT_STALE, UnreadReasoning
from compaction_hooks.view.record import CompactionRecord, StaleRuns
from compaction_hooks.view.references import Beginning, View


class Request(NamedTuple, Generic[M]):
    """What dressers know of a request.

    Attributes:
        estimate: Size of one neutral message in tokens, before calibration.
        start: The provider's own summary in the list at which the view begins, or None.
        stale: The runs whose reasoning is left out.
        unread: The reasoning that the provider ignores behind a summary.
        issuer: The API and the model that read the view, if the format can write their items; else None.
    """

    format: Format[M]
    estimate: Callable[[Message], int]
    start: Beginning | None = None
    stale: StaleRuns = NOT_STALE
    unread: UnreadReasoning = ALL_READ
    issuer: Issuer | None = None


def dress(
    view: View[M],
    history: History[M],
    record: CompactionRecord | None,
    request: Request[M],
    earlier: View[M] | None = None,
) -> View[M]:
    """Return the view of a record as a request shows it.

    Args:
        earlier: The dressed view of this history before, or of one that it grew from.
    """
    format, estimate = request.format, request.estimate
    items = record.native_for(request.issuer) if record is not None else None

    view = begin(view, history, record, request.start, format, estimate, has_items=items is not None)
    view = leave_out(view, history, format, estimate, request.stale)
    view = move_mark(view, history, format, earlier)
    view = show_items(view, format, estimate, items, record.rendered if record else "")
    return ignore(view, history, estimate, request.unread)
