"""Kept messages that a view shows smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Final

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, PartAddress
from compaction_hooks.view.reductions import (
    PartKind,
    PartName,
    Place,
    Reduction,
    Rewritten,
    by_place,
    part_digest,
    places,
)

OF_A_REQUEST: Final[Collection[PartKind]] = ("text", "media")
"""The kinds of parts that the current request may have; the view always shows them in full."""


def rewrite_parts(
    history: History[M],
    wanted: Mapping[PartName, Reduction],
    cut: int,
    known: Container[Reduction],
    format: Format[M],
    estimate: Callable[[Message], int],
    earlier: Mapping[int, Rewritten[M]],
) -> dict[int, Rewritten[M]]:
    """Return the messages after the cut that have one of the wanted reductions, by index of the host message.

    Args:
        known: Reductions that were made of this history, so that their parts need not be hashed again.
        estimate: Size of one neutral message in tokens, before calibration.
        earlier: The rewritten messages of another view of this history, or of one that it grew from; they are reused.
    """
    rewritten = _reusable(history, wanted, cut, earlier)
    shown = by_place(item for message in rewritten.values() for item in message.reductions)
    for host, new in _new_texts(history, wanted, cut, known, wanted.keys() - shown.keys()).items():
        rewritten[host] = _rewrite(history, host, new, format, estimate)
    return rewritten


def _rewrite(
    history: History[M],
    host: int,
    new: Mapping[PartAddress, tuple[str, Reduction]],
    format: Format[M],
    estimate: Callable[[Message], int],
) -> Rewritten[M]:
    message = format.rewrite(history.host(host), {address: text for address, (text, _) in new.items()})
    read = tuple(format.read(message))
    pieces = [history.piece(index) for index in history.host_pieces(host)]
    saved = sum(
        pieces[number].tokens - estimate(read[number]) for number in {number for number, _ in new} if number < len(read)
    )
    is_alone = len(pieces) == 1 and len(pieces[0].message.parts) == 1
    alone = (pieces[0].tokens - saved, max(len(text) for text, _ in new.values())) if is_alone else None
    return Rewritten(message, read, tuple([item for _, item in new.values()]), saved, alone)


def _reusable(
    history: History[M], wanted: Mapping[PartName, Reduction], cut: int, earlier: Mapping[int, Rewritten[M]]
) -> dict[int, Rewritten[M]]:
    """Return the rewritten messages of an earlier view with the same reductions; not requests, which may be shown in full now."""
    return {
        host: shown
        for host, shown in earlier.items()
        if history.first_piece(host) >= cut
        and all(
            wanted.get(name) == item and item.kind not in OF_A_REQUEST
            for name, item in by_place(shown.reductions).items()
        )
    }


def _new_texts(
    history: History[M],
    wanted: Mapping[PartName, Reduction],
    cut: int,
    known: Container[Reduction],
    names: Iterable[PartName],
) -> dict[int, dict[PartAddress, tuple[str, Reduction]]]:
    """Return the new texts by host message and address; none for a part whose content is not the one that was reduced.

    Only the runs of `names` are searched. A part with a `known` reduction needs no digest, unless a second result answers the same
    call.
    """
    texts: dict[int, dict[PartAddress, tuple[str, Reduction]]] = {}
    found: list[tuple[Place, PartName]] = [
        (place, (place.kind, run, place.ordinal)) for run, place in places(history, {run for _, run, _ in names})
    ]
    times = Counter(name for _, name in found)
    for place, name in found:
        reduction = wanted.get(name)
        # After a rewind the current request may be one that was shortened while a later one was current.
        is_request = place.piece == history.request and place.kind in OF_A_REQUEST
        if reduction is None or place.piece < cut or is_request:
            continue
        piece = history.piece(place.piece)
        address = piece.number, place.number
        is_known = reduction in known and times[name] == 1
        is_there = is_known or part_digest(place.kind, place.text) == reduction.digest
        # The reduction of a result comes before that of its media: it has dropped them already.
        if is_there and address not in texts.get(piece.host, ()):
            texts.setdefault(piece.host, {})[address] = place.text_under(reduction), reduction
    return texts
