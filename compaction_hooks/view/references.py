"""A view: which messages a request has and how each is shown, as references. No host message and no provider is known here.

1. A reference says where a message comes from and how it reads. Its place in the request is its place among the references.
2. Every size is the sum of the references, so that what a dresser takes away adds up.
3. Only dressers change a view that `view_of` made, and only `write` makes messages of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from compaction_hooks.history import History
from compaction_hooks.messages import M, Message, PartAddress, Text
from compaction_hooks.native import NativeItems
from compaction_hooks.view.parts import Reduction
from compaction_hooks.view.reasoning import NOT_STALE
from compaction_hooks.view.record import Pin, StaleRuns


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Kept:
    """A message of the host in a view, whole or in part.

    Attributes:
        host: Index of the host message.
        pieces: Indexes of its pieces that are shown.
        numbers: The numbers of these pieces in the message; None: all of them.
        shown: How these pieces read, with the reductions, and still with what is left out.
        sizes: Their estimates in tokens, before calibration, without what is left out.
        reductions: By address in the host message, the parts that are shown smaller.
        left_out: The parts that a dresser leaves out, by address in `shown`.
        is_untied: Whether a dresser makes the message valid without the reasoning before it.
        only: "store" if only the list for a host to store has it; "": a request too.
    """

    host: int
    pieces: tuple[int, ...]
    numbers: tuple[int, ...] | None
    shown: tuple[Message, ...]
    sizes: tuple[int, ...]
    reductions: Mapping[PartAddress, Reduction] = field(default_factory=dict[PartAddress, Reduction])
    left_out: frozenset[PartAddress] = frozenset()
    is_untied: bool = False
    only: Literal["", "store"] = ""

    @property
    def is_own(self) -> bool:
        """Whether the view shows the host's own object."""
        return self.numbers is None and not self.reductions and not self.left_out and not self.is_untied

    @property
    def tokens(self) -> int:
        """Its estimate in tokens, before calibration."""
        return sum(self.sizes)

    @property
    def messages(self) -> Iterator[Message]:
        """How it reads, without what is left out."""
        for number, message in enumerate(self.shown):
            parts = [part for place, part in enumerate(message.parts) if (number, place) not in self.left_out]
            if len(parts) == len(message.parts):
                yield message
            elif parts:
                yield replace(message, parts=tuple(parts))


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Made:
    """A message that we make: the summary, the provider's own items in its place, or a text among the host's messages.

    Attributes:
        text: Its text; "" if it is made of `items`.
        tokens: Its estimate, before calibration.
        before: Index of the piece before which it is, if it is among the host's messages; None: at the head.
        mark: Index of the covered host message whose cache mark it has, as long as that has one; None without one.
        items: The provider's own items that it is made of; None without any.
        only: "request" if only a request has it, "store" if only the list for a host to store has it; "": both.
    """

    text: str
    tokens: int
    mark: int | None = None
    items: NativeItems | None = None
    before: int | None = None
    only: Literal["", "request", "store"] = ""

    @property
    def messages(self) -> Iterator[Message]:
        """How it reads; a provider's items are read by the provider alone."""
        if self.items is None:
            yield Message(role="user", parts=(Text(self.text),))


Reference: TypeAlias = Kept | Made


class Beginning(NamedTuple):
    """A summary in the host's list that is the provider's own, at which a view begins.

    Attributes:
        piece: Index of the piece that holds it; `NOWHERE` if the request sends none of the list's summaries, and the list has the
            messages that they cover.
        is_sent: Whether the request sends it; otherwise its text takes its place.
        is_sealed: Whether only its issuer can read it.
        text: Its text, which the next summary of ours updates; "" if it is sealed.
        left_out: Pieces of other summaries that the request cannot send.
        covered: Host messages that it covers.
        pins: Messages before it that stay.
        is_newer: Whether neither the summary of the view's record nor ours at the head of the list covers it.
    """

    piece: int
    is_sent: bool = True
    is_sealed: bool = False
    text: str = ""
    left_out: tuple[int, ...] = ()
    covered: int = 0
    pins: tuple[Pin, ...] = ()
    is_newer: bool = False

    @property
    def always_stays(self) -> bool:
        """Whether every later view has it too, since only its issuer can read it."""
        return self.is_sent and self.is_sealed


NOWHERE = -1
"""The piece of no summary."""


class Inserted(NamedTuple):
    """A text of ours among the host's messages: before which piece it is, its text and its estimate."""

    before: int
    text: str
    tokens: int


class Dressed(NamedTuple):
    """What dressers did to a view, as a value: views of one record that differ in it are different requests."""

    stale: StaleRuns = NOT_STALE
    shows_items: bool = False
    start: Beginning | None = None
    inserted: tuple[Inserted, ...] = ()

    def begins(self, later: Dressed, piece_count: int) -> bool:
        """Whether `later` differs from this, of a list with so many pieces, only in texts behind the end of that list."""
        count = len(self.inserted)
        is_same = later._replace(inserted=later.inserted[:count]) == self
        return is_same and all(each.before >= piece_count for each in later.inserted[count:])

    @property
    def shows_native(self) -> bool:
        """Whether a request has a summary of the provider's own: items in place of ours, or one of the list."""
        return self.shows_items or (self.start is not None and self.start.is_sent)


class WrittenBeginning(NamedTuple, Generic[M]):
    """The messages of a view's references, and what they were made of.

    Attributes:
        view: That view.
        own: The host's own objects among the messages.
        mark: The cache mark of the summary, or None.
    """

    view: View[M]
    own: list[M]
    mark: object | None
    messages: list[M]


class Written(Generic[M]):
    """The messages that `write` made, so that each reference is written once.

    Attributes:
        copies: The messages by reference, as long as a view has the reference.
        beginnings: The beginnings that were written last: of a list to send (False), and of a list for a store (True).
    """

    def __init__(self) -> None:
        self.copies: WeakKeyDictionary[Reference, M] = WeakKeyDictionary()
        self.beginnings: dict[bool, WrittenBeginning[M]] = {}


@dataclass(frozen=True, eq=False)
class View(Generic[M]):
    """One record applied to one history; true of that history and of all that grow from it.

    Attributes:
        references: The beginning of the view: system messages, the summary, pins, and the kept messages up to the last one that is
            not the host's own object.
        tail_start: Index of the host message from which on the view is the host's list.
        cut: Index of the first of the recent pieces, which are kept.
        start: The provider's own summary in the list, or None.
        stale: The runs whose reasoning a dresser leaves out.
        ignored_tokens: The estimate, before calibration, of what the view has and the provider ignores.
        written: What was written of its references.
    """

    references: tuple[Reference, ...] = ()
    tail_start: int = 0
    cut: int = 0
    start: Beginning | None = None
    stale: StaleRuns = NOT_STALE
    ignored_tokens: int = 0
    written: Written[M] = field(default_factory=Written[M])

    def change(self, **changes: Any) -> View[M]:
        """Return the view with other fields."""
        return replace(self, **changes)

    @property
    def is_identity(self) -> bool:
        """Whether the view is the host's own list."""
        return not self.references and self.tail_start == 0

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The host messages of its beginning."""
        return tuple(each for each in self.references if isinstance(each, Kept))

    @cached_property
    def own(self) -> list[int]:
        """The indexes of the host messages of its beginning that are shown as they are."""
        return [each.host for each in self.kept if each.is_own]

    @cached_property
    def summary(self) -> Made | None:
        """The text in place of the covered messages, or None."""
        made = (each for each in self.references if isinstance(each, Made))
        return next((each for each in made if each.items is None and each.before is None), None)

    @cached_property
    def items(self) -> NativeItems | None:
        """The provider's own items in place of that text, or None."""
        return next((each.items for each in self.references if isinstance(each, Made) and each.items is not None), None)

    @cached_property
    def dressed(self) -> Dressed:
        """What dressers did to it."""
        return Dressed(self.stale, self.items is not None, self.start, self.inserted)

    @cached_property
    def inserted(self) -> tuple[Inserted, ...]:
        """The texts of ours among the host's messages."""
        made = (each for each in self.references if isinstance(each, Made))
        return tuple(Inserted(each.before, each.text, each.tokens) for each in made if each.before is not None)

    @cached_property
    def whole_from(self) -> int:
        """Index of the host message from which on the view has all as they are, perhaps with texts of ours among them."""
        first = self.tail_start
        for each in reversed(self.references) if self.inserted else ():
            if isinstance(each, Kept):
                if not each.is_own or each.host != first - 1 or each.pieces[0] < self.cut:
                    break
                first = each.host
        return first

    @cached_property
    def is_stored_alike(self) -> bool:
        """Whether the list for a host to store has the same messages as the request."""
        return not any(each.only for each in self.references)

    @cached_property
    def is_stored_as_listed(self) -> bool:
        """Whether the list for a host to store is the host's own: the view adds texts for the request alone."""
        own = (
            each.host if isinstance(each, Kept) and each.is_own else None
            for each in self.references
            if not _is_sent_only(each)
        )
        return [*own] == [*range(self.tail_start)]

    @cached_property
    def pinned(self) -> tuple[int, ...]:
        """The pieces that a request has from before the cut, without system messages."""
        return tuple(
            piece
            for each in self.kept
            for piece, message in zip(each.pieces, each.shown, strict=True)
            if piece < self.cut and message.role != "system" and not each.only
        )

    @cached_property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions that the view shows."""
        return tuple(item for each in self.kept for item in each.reductions.values())

    @cached_property
    def reduced_hosts(self) -> Mapping[int, Mapping[PartAddress, Reduction]]:
        """By index of the host message, and by address in it, the reductions that the view shows; it may show a message twice."""
        found: dict[int, dict[PartAddress, Reduction]] = {}
        for each in self.kept:
            if each.reductions:
                found.setdefault(each.host, {}).update(each.reductions)
        return found

    @cached_property
    def reduced(self) -> Mapping[int, Message]:
        """By index, how the pieces read of the host messages in which a part is shown smaller."""
        smaller = (each for each in self.kept if each.reductions)
        return {piece: message for each in smaller for piece, message in zip(each.pieces, each.shown, strict=True)}

    @cached_property
    def beginning_tokens(self) -> int:
        """The estimate of its references in a request, in tokens before calibration, without what the provider ignores."""
        shown = (each for each in self.references if each.only != "store")
        return sum(each.tokens for each in shown) - self.ignored_tokens

    def tokens(self, history: History[M]) -> int:
        """Return the view's estimate in tokens, before calibration."""
        return self.beginning_tokens + history.tokens(history.first_piece(self.tail_start))

    def pieces(self, history: History[M]) -> Iterator[tuple[int, Message]]:
        """Yield the pieces of host messages in it, by index, as they read with the reductions, and still with what is left out."""
        for each in self.kept:
            yield from zip(each.pieces, each.shown, strict=True)
        first = history.first_piece(self.tail_start)
        yield from enumerate((piece.message for piece in history.pieces(first)), first)

    def messages(self, history: History[M]) -> list[Message]:
        """Return how it reads, without what is left out; what a format unties may read otherwise."""
        shown = [message for each in self.references for message in each.messages]
        return shown + [piece.message for piece in history.pieces(history.first_piece(self.tail_start))]


def _is_sent_only(reference: Reference) -> bool:
    return isinstance(reference, Made) and reference.only == "request"
