"""What a view has and the provider ignores weighs nothing: its counts leave it out, so our sizes do.

1. Everything but system messages before the provider's own summary, where the view cannot leave it out.
2. Behind a summary of ours, the reasoning of an answer that the model has been answered to since.
"""

from __future__ import annotations

from itertools import chain

from compaction_hooks.dress.request import Request
from compaction_hooks.history import History
from compaction_hooks.messages import M
from compaction_hooks.view.references import Kept, View


def ignore(view: View[M], request: Request[M]) -> View[M]:
    """Return the view with the estimate of what the provider ignores in it."""
    history, start, tokens = request.history, view.start, 0
    # A summary behind the cut is one that messages may be sent before: `begin` left them there.
    if start is not None and start.is_newer and start.is_sent and start.piece >= view.cut:
        tokens = _weigh_before(view, history, start.piece)
    elif view.summary is not None:
        shown = chain(view.pinned, range(view.cut, history.piece_count))
        tokens = request.unread.weigh(history, shown, request.estimate)
    return view.change(ignored_tokens=tokens) if tokens else view


def _weigh_before(view: View[M], history: History[M], end: int) -> int:
    """Return the tokens of a view before a piece, system messages apart."""
    tokens, first = 0, history.first_piece(view.tail_start)
    for each in view.references:
        if each.only == "store":
            continue
        if isinstance(each, Kept):
            shown = zip(each.pieces, each.shown, each.sizes, strict=True)
            tokens += sum(size for index, message, size in shown if index < end and message.role != "system")
        elif each.before is None or each.before <= end:
            tokens += each.tokens

    pieces = history.pieces(first, end) if first < end else []
    return tokens + sum(piece.tokens for piece in pieces if piece.message.role != "system")
