"""Large tool results, shortened from the first view that shows them: no view shows them otherwise later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M, Message, ToolResult
from compaction_hooks.view.markers import HEAD_RATIO
from compaction_hooks.view.reductions import Estimate, Reducible, Reduction, ToolRule, places, run_handles


def shorten_large_results(
    history: History[M],
    first_piece: int,
    most_tokens: int,
    estimate: Estimate,
    *,
    rules: Mapping[str, ToolRule],
    pins: Set[str] = frozenset(),
    has_recall: bool = False,
) -> tuple[Reduction, ...]:
    """Return the reductions of all results above `most_tokens`, by estimate before calibration, to about that size.

    They depend on these results and their tools alone. Results of tools whose rule is "never", and pinned ones, stay whole.

    Args:
        first_piece: The first piece to look at.
        pins: Digests of the messages that the host pinned.
    """
    reductions: list[Reduction] = []
    large = {
        index
        for index, piece in enumerate(history.pieces(first_piece), first_piece)
        if piece.tokens > most_tokens and piece.side == "host" and piece.message.results
    }
    if pins:
        large = {index for index in large if message_digest(history.piece(index).message) not in pins}
    for part in _find_large(history, large, most_tokens, estimate, has_recall=has_recall):
        reduction = _shorten(part, most_tokens, estimate)
        if rules.get(part.tool) != "never" and len(reduction.apply(part.text)) < len(part.text):
            reductions.append(reduction)
    return tuple(reductions)


def _shorten(part: Reducible, most_tokens: int, estimate: Estimate) -> Reduction:
    """Return the reduction of a result to a size at which it is not shortened again, if the host stores the view."""
    kept, tokens = len(part.text), part.tokens
    while True:
        kept = max(1, int(kept * most_tokens / tokens))
        reduction = part.reduction(int(kept * HEAD_RATIO), kept - int(kept * HEAD_RATIO))
        shown = ToolResult(part.call.id if part.call else "", reduction.apply(part.text), part.tool)
        tokens = estimate(Message(role="other", parts=(shown,)))
        if tokens <= most_tokens or kept == 1:
            return reduction


def _find_large(
    history: History[M], large: Set[int], most_tokens: int, estimate: Estimate, *, has_recall: bool
) -> Iterator[Reducible]:
    for run in sorted({history.run_of(index) for index in large}):
        before = history.run_pieces(run - 1) if run > history.base else ()
        calls = {call.id: call for index in before for call in history.piece(index).message.calls}
        handles = run_handles(history, run) if has_recall else None
        for _, place in places(history, (run,)):
            if place.piece in large and isinstance(place.part, ToolResult) and place.ordinal >= 0:
                tokens = estimate(Message(role="other", parts=(place.part,)))
                call = calls.get(place.part.call_id)
                tool = place.part.name or (call.name if call else "")
                if place.kind == "result" and tokens > most_tokens:
                    where = run, place.ordinal, place.piece, place.number
                    yield Reducible("result", *where, tool, place.text, tokens, len(place.text), call, handles)
