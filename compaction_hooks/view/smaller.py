"""Messages that a view shows smaller: the copies of them, and the results that are too large for any view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import Format, M, Message, PartAddress, ToolResult
from compaction_hooks.view.markers import HEAD_RATIO
from compaction_hooks.view.parts import (
    OF_A_REQUEST,
    RESULTS,
    Estimate,
    PartName,
    Reducible,
    Reduction,
    Rewritten,
    ToolRule,
    by_name,
    list_parts,
    measure,
)


def rewrite_parts(
    history: History[M],
    wanted: Mapping[PartName, Reduction],
    cut: int,
    format: Format[M],
    estimate: Callable[[Message], int],
    earlier: Mapping[int, Rewritten[M]],
) -> dict[int, Rewritten[M]]:
    """Return the messages after the cut that have one of the wanted reductions, by index of the host message.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        earlier: The rewritten messages of another view of this history, or of one that it grew from; they are reused if they have
            the same reductions. Not requests, which may be shown in full now.
    """
    rewritten = {
        host: shown
        for host, shown in earlier.items()
        if history.first_piece(host) >= cut
        and all(wanted.get(item.name) == item and item.kind not in OF_A_REQUEST for item in shown.reductions)
    }
    shown = by_name(item for message in rewritten.values() for item in message.reductions)
    for host, new in _new_texts(history, wanted, cut, wanted.keys() - shown.keys()).items():
        message = format.rewrite(history.host(host), {address: text for address, (text, _) in new.items()})
        read = tuple(format.read(message))
        pieces = [history.piece(index) for index in history.host_pieces(host)]
        changed = {number for number, _ in new if number < len(read)}
        saved = sum(pieces[number].tokens - estimate(read[number]) for number in changed)
        rewritten[host] = Rewritten(message, read, tuple(item for _, item in new.values()), saved)
    return rewritten


def _new_texts(
    history: History[M], wanted: Mapping[PartName, Reduction], cut: int, names: Collection[PartName]
) -> dict[int, dict[PartAddress, tuple[str, Reduction]]]:
    """Return the new texts by host message and address; none for a part whose content is not the one that was reduced.

    Only the runs of `names` are searched.
    """
    texts: dict[int, dict[PartAddress, tuple[str, Reduction]]] = {}
    for part in list_parts(history, {run for _, run, _ in names}):
        reduction = wanted.get(part.name)
        # After a rewind the current request may be one that was shortened while a later one was current.
        is_request = part.piece == history.request and part.kind in OF_A_REQUEST
        if reduction is None or part.piece < cut or is_request:
            continue
        piece = history.piece(part.piece)
        address = piece.number, part.part
        # The reduction of a result comes before that of its media: it has dropped them already.
        if part.digest == reduction.digest and address not in texts.get(piece.host, ()):
            texts.setdefault(piece.host, {})[address] = part.text_under(reduction), reduction
    return texts


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

    They depend on these results and their tools alone, and are made for the first view that shows them: no later view shows them
    otherwise. Results of tools whose rule is "never", and pinned ones, stay whole.

    Args:
        first_piece: The first piece to look at.
        pins: Digests of the messages that the host pinned.
    """
    large = {
        index
        for index, piece in enumerate(history.pieces(first_piece), first_piece)
        if piece.tokens > most_tokens and piece.side == "host" and piece.message.results
    }
    if pins:
        large = {index for index in large if message_digest(history.piece(index).message) not in pins}
    listed = list_parts(history, {history.run_of(index) for index in large}, RESULTS, has_recall=has_recall)
    named = (part for part in listed if part.piece in large and part.ordinal >= 0 and rules.get(part.tool) != "never")
    made = [
        (part, _shorten(part, most_tokens, estimate))
        for part in measure(history, named, estimate)
        if part.tokens > most_tokens
    ]
    return tuple(reduction for part, reduction in made if len(reduction.apply(part.text)) < len(part.text))


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
