"""`view_of`: what stays of a history under a record. A pure function that knows no provider and no model.

System messages, the summary, pins, then the recent messages; the parts that the record reduces are smaller. The same in every
process and framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Generic, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, PartAddress, Text
from compaction_hooks.view.carried import without_carried
from compaction_hooks.view.head import Head, covered_pieces, pin_pieces
from compaction_hooks.view.parts import OF_A_REQUEST, Reduction, by_name, find_reduced, reduce_part, text_of
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.references import Kept, Made, Reference, View, Written


def is_true(history: History[M], record: CompactionRecord) -> bool:
    """Return whether the history begins with exactly the messages that the record covers, and goes on after them."""
    if history.digest_before(record.covered_runs) != record.covered_digest:
        return False
    # A late result after the cut that answers a call before it would be an orphan.
    return record.covered_runs == history.runs_before_list or history.is_boundary(record.covered_runs)


def view_of(
    history: History[M],
    record: CompactionRecord | None,
    estimate: Callable[[Message], int],
    earlier: View[M] | None = None,
    large: Iterable[Reduction] = (),
    format: Format[M] | None = None,
) -> View[M]:
    """Apply a record that is true of this history; None is the host's own list.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        earlier: Another view of this history, or of one that it grew from; its references are used again.
        large: Reductions of results that are too large for any view, made of this history; those of the record take precedence.
        format: Reads shortened arguments, which it may hold as objects, as it writes them; None: their sizes do not matter.
    """
    large, reductions = tuple(large), record.reductions if record else ()
    if record is None and not large:
        return View()

    cut = covered_pieces(history, record.covered_runs) if record else 0
    # Without a cut the list has the summary and the pins at its own head already, if there are any.
    head = Head(cut, record.rendered, record.pins) if record and cut else Head()
    pinned = find_pinned(history, head)

    known = {each.host: each for each in earlier.kept} if earlier else dict[int, Kept]()
    reduced_earlier: Mapping[int, Mapping[PartAddress, Reduction]] = earlier.reduced_hosts if earlier else {}
    reduced = find_reduced(history, by_name((*large, *reductions)), cut, pinned, reduced_earlier)

    keeper = Keeper(history, estimate, reduced, known, format)
    return assemble(keeper, head, pinned, earlier)


def assemble(
    keeper: Keeper[M],
    head: Head,
    pinned: Iterable[int],
    earlier: View[M] | None,
    front: Sequence[int] = (),
    *,
    is_first: bool = False,
) -> View[M]:
    """Return the view with this beginning, and references up to the last message that is not the host's own object.

    Args:
        pinned: The pieces from before the cut that stay.
        front: The pieces of a summary of the provider's own at which the view begins.
        is_first: Whether these are in front of the system messages.
    """
    history, (cut, rendered, _) = keeper.history, head
    references: list[Reference] = []
    if cut or rendered:
        systems = history.systems(cut)
        references += keeper._replace(reduced={}).keep([*front, *systems] if is_first else [*systems, *front])
        if rendered:
            references.append(_make_summary(rendered, keeper.estimate, earlier))
        references += keeper.for_pins().keep(pinned)

    # The tail begins behind the message that the cut divides, if it does, and behind all that are shown smaller.
    first = history.host_of(cut)
    is_divided = cut < history.piece_count and history.first_piece(first) != cut
    first_whole = first + 1 if is_divided else first
    tail_start = max([first_whole, *(host + 1 for host in keeper.reduced)])
    references += keeper.keep(range(cut, history.first_piece(tail_start)))
    return View(tuple(references), tail_start, cut, written=earlier.written if earlier else Written())


def _make_summary(rendered: str, estimate: Callable[[Message], int], earlier: View[Any] | None) -> Made:
    """Return the reference to a summary: that of the earlier view, if it has the same text and no dresser changed it."""
    known = earlier.summary if earlier else None
    if known is not None and (known.text, known.mark, known.only) == (rendered, None, ""):
        return known
    return Made(rendered, estimate(Message(role="user", parts=(Text(rendered),))))


def find_pinned(history: History[M], head: Head, front: Sequence[int] = ()) -> list[int]:
    """Return the pieces before the cut that stay: pins, and the current request, which may lie there after a rewind.

    Args:
        front: Pieces that stay in front in any case.
    """
    requests = {index for index in (history.request,) if index is not None and index < head.cut}
    return sorted({*pin_pieces(history, head.pins, head.cut), *requests} - {*front})


class Keeper(NamedTuple, Generic[M]):
    """Makes references to the host messages of a history.

    Attributes:
        estimate: Size of one neutral message in tokens, before calibration.
        reduced: By index of the host message, and by address in it, the parts that are shown smaller.
        known: The references of an earlier view, by index of the host message: equal ones are used again.
        format: As in `view_of`.
    """

    history: History[M]
    estimate: Callable[[Message], int]
    reduced: Mapping[int, Mapping[PartAddress, Reduction]]
    known: Mapping[int, Kept]
    format: Format[M] | None = None

    def for_pins(self) -> Keeper[M]:
        """Return the keeper for messages before the cut: there only texts and media are shown smaller, no results or arguments."""
        reduced = {
            host: {address: item for address, item in reductions.items() if item.kind in OF_A_REQUEST}
            for host, reductions in self.reduced.items()
        }
        return self._replace(reduced=reduced)

    def keep(self, pieces: Iterable[int]) -> Iterator[Kept]:
        """Yield references to the messages of these pieces, with only these pieces."""
        for host, group in groupby(pieces, key=lambda index: self.history.piece(index).host):
            chosen = tuple(group)
            first, of_message = self.history.first_piece(host), self.reduced.get(host, {})
            reductions = {address: item for address, item in of_message.items() if first + address[0] in chosen}

            old = self.known.get(host)
            if old is not None and old.pieces == chosen and old.reductions == reductions and not _is_dressed(old):
                yield old
            else:
                yield self._keep_one(host, chosen, reductions)

    def _keep_one(self, host: int, chosen: tuple[int, ...], reductions: Mapping[PartAddress, Reduction]) -> Kept:
        history = self.history
        pieces = [history.piece(index) for index in chosen]
        is_whole = len(chosen) == len(history.host_pieces(host))
        numbers = None if is_whole else tuple(piece.number for piece in pieces)
        if not reductions:
            shown = tuple(piece.message for piece in pieces)
            return Kept(host, chosen, numbers, shown, tuple(piece.tokens for piece in pieces))

        read, changed = read_reduced(history, host, reductions, self.format), {number for number, _ in reductions}
        shown = tuple(read[piece.number] for piece in pieces)
        sizes = tuple(
            self.estimate(message) if piece.number in changed else piece.tokens
            for piece, message in zip(pieces, shown, strict=True)
        )
        return Kept(host, chosen, numbers, shown, sizes, reductions)


def _is_dressed(kept: Kept) -> bool:
    return bool(kept.left_out or kept.is_untied or kept.only)


def read_reduced(
    history: History[M], host: int, reductions: Mapping[PartAddress, Reduction], format: Format[M] | None
) -> Sequence[Message]:
    """Return how the pieces of a host message read with these parts shown smaller."""
    shown = [history.piece(index).message for index in history.host_pieces(host)]
    for (number, place), reduction in reductions.items():
        parts = [*shown[number].parts]
        parts[place] = reduce_part(parts[place], reduction)
        shown[number] = replace(shown[number], parts=tuple(parts))

    if format is None or all(item.kind != "arguments" for item in reductions.values()):
        return shown
    # Arguments that are held as objects are written in another way than they are shortened: sizes are those of what is sent.
    texts = {(number, place): text_of(shown[number].parts[place]) for number, place in reductions}
    return format.read(format.rewrite(history.host(host), texts))


def view_until(
    view: View[M], history: History[M], end: int, estimate: Callable[[Message], int], format: Format[M]
) -> View[M]:
    """Return the part of a view before piece `end`, which is behind its cut. A message that `end` divides is kept up to there."""
    before = (
        each for each in view.references if not isinstance(each, Made) or each.before is None or each.before < end
    )
    whole = [each for each in before if isinstance(each, Made) or each.pieces[-1] < end]
    divided = (each for each in view.kept if each.pieces[0] < end <= each.pieces[-1])
    of_divided = (index for each in divided for index in each.pieces if index < end)
    of_tail = range(history.first_piece(view.tail_start), end)

    keeper = Keeper(history, estimate, view.reduced_hosts, {}, format)
    references = (*whole, *keeper.keep([*of_divided, *of_tail]))
    return view.change(references=references, tail_start=history.host_count)


def without_texts_of_ours(view: View[M]) -> View[M]:
    """Return a view without what is no one's words: texts among the host's messages, and those that the summary carries."""
    staying = (each for each in view.references if not isinstance(each, Made) or each.before is None)
    return view.change(references=tuple(_without_carried(each) for each in staying))


def _without_carried(reference: Reference) -> Reference:
    if not isinstance(reference, Made):
        return reference
    plain = without_carried(reference.text)
    return reference if plain == reference.text else replace(reference, text=plain)
