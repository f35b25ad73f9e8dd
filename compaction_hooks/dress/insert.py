"""Texts of ours behind a run: a request has them among the host's messages, and no list to store has them.

1. A text stays at its place as the list grows, so the bytes before and behind it stay the same.
2. It is never between a tool call and its results, and never inside a message of the host. Its giver sees to that: `find_place` for
   carried texts, `engine/pressure.py` for the notice.
3. If the view leaves out the messages at its place, it leaves out the text.
"""

from __future__ import annotations

from compaction_hooks.dress.request import Behind, Request
from compaction_hooks.history import History
from compaction_hooks.messages import M, Message, Text
from compaction_hooks.view.references import Kept, Made, Reference, View
from compaction_hooks.view.view_of import Keeper


def find_place(history: History[M], run: int, first_run: int) -> int:
    """Return the piece before which a text behind the first `run` runs is: at the last boundary there between two host messages.

    Args:
        first_run: The run at which the view's recent messages begin: the text is not in front of it.
    """
    while run > first_run and not (history.is_boundary(run) and _begins_message(history, history.run_start(run))):
        run -= 1
    return history.run_start(run)


def _begins_message(history: History[M], piece: int) -> bool:
    return piece == history.first_piece(history.host_of(piece))


def insert(view: View[M], request: Request[M]) -> View[M]:
    """Return the view with the texts of the request behind their runs."""
    texts = [each for each in request.behind if each.piece >= view.cut]
    if not texts:
        return view

    # The tail, which is the host's list as it is, begins behind the last text.
    history, earlier = request.history, request.earlier
    first, last = history.first_piece(view.tail_start), max(each.piece for each in texts)
    known = {each.host: each for each in earlier.kept} if earlier is not None else {}
    of_tail = Keeper(history, request.estimate, {}, known).keep(range(first, last))
    references: list[Reference] = [*view.references, *of_tail]

    for each in texts:
        later = (place for place, other in enumerate(references) if _is_from(other, each.piece))
        references.insert(next(later, len(references)), _make(each, request))
    tail_start = max(view.tail_start, history.host_of(last))
    return view.change(references=tuple(references), tail_start=tail_start)


def _is_from(reference: Reference, piece: int) -> bool:
    return isinstance(reference, Kept) and reference.pieces[0] >= piece


def _make(behind: Behind, request: Request[M]) -> Made:
    """Return the reference to a text: that of the earlier view, if it has the same there."""
    made = (each for each in (request.earlier.references if request.earlier else ()) if isinstance(each, Made))
    known = next((each for each in made if (each.before, each.text) == behind), None)
    if known is not None:
        return known
    tokens = request.estimate(Message(role="user", parts=(Text(behind.text),)))
    return Made(behind.text, tokens, before=behind.piece, only="request")
