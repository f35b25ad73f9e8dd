"""Stale reasoning: a view has none that its model made behind other messages, and no summary that only another issuer can read.

1. A message loses all its reasoning, copies in other fields included: the provider would refuse a part of it too.
2. A message that has nothing else is left out.
3. What is left is untied, in formats that tie a message to its reasoning by ids or signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compaction_hooks.dress.request import Request
from compaction_hooks.history import History
from compaction_hooks.messages import M, Message, NativeSummary, Part, can, is_blank
from compaction_hooks.reasoning import has_reasoning, is_reasoning
from compaction_hooks.view.reasoning import NOT_STALE, size_of
from compaction_hooks.view.record import StaleRuns
from compaction_hooks.view.references import Kept, Reference, View
from compaction_hooks.view.view_of import Keeper


def leave_out(view: View[M], request: Request[M]) -> View[M]:
    """Return the view without stale reasoning, and without the summaries of the list that the request cannot send."""
    history, estimate, stale = request.history, request.estimate, request.stale
    natives = frozenset(view.start.left_out) if view.start is not None else frozenset[int]()
    if stale == NOT_STALE and not natives:
        return view
    pieces, unties = _find_pieces(history, stale), can(request.format, "untie")

    # A message without reasoning may be tied to that of a message before it.
    def is_stale(index: int, message: Message) -> bool:
        return index in pieces and ((unties and message.role == "assistant") or has_reasoning(message))

    # The tail, which is the host's list as it is, begins behind the last message that loses something.
    first = history.first_piece(view.tail_start)
    in_tail = [*range(max(pieces.start, first), pieces.stop), *(index for index in natives if index >= first)]
    changed = [index for index in in_tail if index in natives or is_stale(index, history.piece(index).message)]
    tail_start = max([view.tail_start, *(history.piece(index).host + 1 for index in changed)])
    of_tail = Keeper(history, estimate, {}, {}).keep(range(first, history.first_piece(tail_start)))

    references: list[Reference] = []
    for each in (*view.references, *of_tail):
        left: Reference | None = each
        if isinstance(each, Kept):
            loses = any(map(is_stale, each.pieces, each.shown))
            if loses or not natives.isdisjoint(each.pieces):
                left = _without(each, natives, estimate, loses_reasoning=loses)
        if left is not None:
            references.append(left)
    return view.change(references=tuple(references), tail_start=tail_start, stale=stale)


def _without(
    kept: Kept, natives: frozenset[int], estimate: Callable[[Message], int], *, loses_reasoning: bool
) -> Kept | None:
    """Return a message without its reasoning and without these summaries, or None if it has nothing else."""

    def is_gone(index: int, part: Part) -> bool:
        return (loses_reasoning and is_reasoning(part)) or (index in natives and isinstance(part, NativeSummary))

    gone = {
        (number, place)
        for number, (index, message) in enumerate(zip(kept.pieces, kept.shown, strict=True))
        for place, part in enumerate(message.parts)
        if is_gone(index, part)
    }
    left = [
        tuple(part for place, part in enumerate(message.parts) if (number, place) not in gone)
        for number, message in enumerate(kept.shown)
    ]
    if gone and all(map(is_blank, (part for parts in left for part in parts))):
        return None

    sizes = tuple(
        size if len(parts) == len(message.parts) else size_of(message, parts, estimate)
        for size, message, parts in zip(kept.sizes, kept.shown, left, strict=True)
    )
    return replace(kept, left_out=frozenset(gone), sizes=sizes, is_untied=loses_reasoning)


def _find_pieces(history: History[M], stale: StaleRuns) -> range:
    """Return the pieces of these runs. Pieces before the first run of the list belong to that."""
    first, end = stale
    start = history.run_start(first) if first > history.runs_before_list else 0
    return range(start, history.run_start(max(end, history.runs_before_list)) if end else 0)
