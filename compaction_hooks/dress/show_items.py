"""The provider's own items: a request to their issuer has them in place of the summary that we keep next to them.

1. The summary stays in the list for a store, so that every store and provider can read it, and so do the user's older messages
   next to it: the provider's items have them.
2. They are sent as they came. Where the host's messages are the provider's own, they are the first; else behind the system prompt,
   which a client library takes out of the list only if it comes first.
3. The texts that the summary carries are behind the messages that its compaction kept: in front of them, signed reasoning in them
   would be behind another beginning. OpenAI binds none: there they are directly behind the items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compaction_hooks.dress.insert import find_place
from compaction_hooks.dress.request import Behind, Request
from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, NativeSummary
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.view.carried import find_carried
from compaction_hooks.view.head import covered_pieces, pin_pieces
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.references import Kept, Made, View


def show_items(view: View[M], request: Request[M]) -> View[M]:
    """Return the view with the items of the record in place of its summary."""
    record, items, summary = request.record, request.items, view.summary
    if record is None or items is None or summary is None or summary.text != record.rendered:
        return view

    made = Made("", _estimate_items(items, request.format, request.estimate), items=items, only="request")
    stored = replace(summary, only="store")
    history = request.history
    older = {*pin_pieces(history, [pin for pin in record.pins if pin.is_optional], view.cut)} - {history.request}
    references = [
        replace(each, only="store") if isinstance(each, Kept) and older.issuperset(each.pieces) else each
        for each in (stored if each is summary else each for each in view.references)
    ]
    place = 0 if request.format.provider == items.issuer.provider else references.index(stored)
    references.insert(place, made)
    return view.change(references=tuple(references))


def place_carried(
    history: History[M],
    record: CompactionRecord | None,
    issuer: Issuer | None,
    list_ancestors: Callable[[CompactionRecord], Sequence[CompactionRecord]],
) -> tuple[Behind, ...]:
    """Return the texts that a record carries, at the place behind its items; none if the view has its summary, or has neither.

    Args:
        list_ancestors: Returns the record and those that it follows, oldest first: later ones may only have cleared results.
    """
    items = record.native_for(issuer) if record is not None else None
    if record is None or items is None or not covered_pieces(history, record.covered_runs):
        return ()
    carried = find_carried(record.rendered)
    if not carried:
        return ()

    run = record.covered_runs
    if not items.issuer.provider.startswith("openai"):
        head = record.rendered, record.covered_runs
        made = next(each for each in list_ancestors(record) if (each.rendered, each.covered_runs) == head)
        # A list that went back has no such place until it is as long again: at its end the text would move with each message.
        run = made.seen_runs if made.seen_runs <= history.run_count else run
    return (Behind(find_place(history, run, record.covered_runs), carried),)


def _estimate_items(items: NativeItems, format: Format[M], estimate: Callable[[Message], int]) -> int:
    """Return the tokens of the items; next to the provider's summary they may have messages that the provider kept."""
    read = (piece for message in format.native(items.items) for piece in format.read(message))
    kept = (piece for piece in read if not any(isinstance(part, NativeSummary) for part in piece.parts))
    return (items.tokens or 0) + sum(map(estimate, kept))
