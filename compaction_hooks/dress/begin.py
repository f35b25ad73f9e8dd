"""The provider's own summary in the host's list: the view of a request that may send it begins there.

1. One that is newer than ours takes the place of ours, and what is before it is left out.
2. A sealed one that ours covers stays in front: it may hold facts that only its issuer can read. Not next to items that were made
   of it.
3. If the request cannot send the newest one, its text takes its place; in place of a sealed one are the user's words, and a
   sentence that the rest is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compaction_hooks.dress.listed_summaries import native_of
from compaction_hooks.dress.request import Request
from compaction_hooks.history import History
from compaction_hooks.messages import M
from compaction_hooks.view.head import Head, covered_pieces, whole_step
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.references import Beginning, View
from compaction_hooks.view.texts import SUMMARY_MARKER, render_summary
from compaction_hooks.view.view_of import Keeper, assemble, find_pinned

MISSING: Final = (
    "The messages before this point are missing: another provider or model compacted them, and only it can read the "
    "summary."
)
"""The words in place of a sealed summary that the request cannot send, and whose messages the list has not."""


def begin(view: View[M], request: Request[M]) -> View[M]:
    """Return the view that begins at a summary of the provider's own, if the list has one."""
    history, record, start = request.history, request.record, request.start
    if start is None:
        return view
    covered = max(covered_pieces(history, record.covered_runs if record else 0), history.summary_piece or 0)
    start = start._replace(is_newer=start.piece >= covered)
    head, front = _find_head(history, view, None if request.items else record, start)
    if head is None:
        return view.change(start=start)

    known = {each.host: each for each in view.kept}
    keeper = Keeper(history, request.estimate, view.reduced_hosts, known, request.format)
    pinned = find_pinned(history, head, front)
    return assemble(keeper, head, pinned, view, front, is_first=start.is_sealed).change(start=start)


def _find_head(
    history: History[M], view: View[M], record: CompactionRecord | None, start: Beginning
) -> tuple[Head | None, Sequence[int]]:
    """Return another beginning than the record's, and the pieces of the provider's own summary in front; None: the record's stays.

    Args:
        record: The record next to whose summary one stays; None: next to none.
    """
    if not start.is_newer:  # ours covers it
        if record is None or not start.always_stays or start.piece >= view.cut:
            return None, ()
        return Head(view.cut, record.rendered, record.pins), (start.piece,)

    if not start.is_sent:
        return Head(start.piece, _render(start), start.pins), ()

    message = history.piece(start.piece).message
    if not native_of(message).is_first or not start.piece:  # messages may be sent before it, or there are none
        return None, ()

    # The message with the summary stays, and if it calls tools, their results.
    end = max(whole_step(history, start.piece)) + 1 if message.calls else start.piece + 1
    kept = [index for index in range(start.piece, end) if history.piece(index).message.role != "system"]
    return Head(end, pins=start.pins), kept


def _render(start: Beginning) -> str:
    """Return the text of the message in the place of a summary that is not sent."""
    if not start.text:
        return f"{SUMMARY_MARKER}\n{MISSING}"
    return render_summary(start.text, file_tags="", continuation=False, covered=start.covered, unseen=0)
