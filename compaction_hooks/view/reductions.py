"""Reductions: tool results that are cleared, parts that are shortened, and the texts in their place. No model is asked.

Every reduction names its part by its place in the conversation (run, ordinal) and by its content, so that it is applied to
exactly that part in any list, and it says how the new text is made, so that the view is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count, pairwise
from json.encoder import encode_basestring_ascii as _quoted
from types import MappingProxyType
from typing import Generic, Literal, NamedTuple, TypeAlias

from compaction_hooks.history import History, Piece
from compaction_hooks.history.digests import Originals, canonical_arguments, text_digest
from compaction_hooks.messages import M, Message, Part, Text, ToolCall, ToolResult
from compaction_hooks.tokens.media import describe_left_out, find_media
from compaction_hooks.view.markers import clearing_marker, make_handle, quote_call, shorten_arguments, shorten_text

PartKind: TypeAlias = Literal["result", "arguments", "text", "media"]
Estimate: TypeAlias = Callable[[Message], int]
PartName: TypeAlias = tuple[PartKind, int, int]
"""The kind, run and ordinal of a part."""
ToolRule: TypeAlias = Literal["never", "first"] | int
"""The rule for the results of one tool: never cleared, cleared first, or the newest n kept."""


class Reduction(NamedTuple):
    """One part of a message that the view shows smaller.

    The texts of a run are hashed as one, so a list that was stored with a shortened text is not recognized by records that cover
    that text and were made from the full list: the newest older record applies to it.

    Attributes:
        run: The run of the part, counted from the start of the conversation.
        ordinal: For a call, its place among the calls of its run; for a result, the place of its call; for a text, its place among
            the texts of its run that are not empty; for media, their place among the parts of the run that are or hold media.
        digest: SHA-256 of the part's full text (arguments in canonical form); for media, of their identities.
        shown_digest: The digest of the text in its place; for media the same as `digest`.
        head_chars: Characters kept from the beginning; 0 together with `tail_chars` 0 is a cleared result.
        tail_chars: Characters kept from the end.
        handle: Names the part in the text in its place, for the recall tool; empty if the record was made without that tool.
        source: The call of a cleared result, as the text in its place quotes it next to the handle.
    """

    kind: PartKind
    run: int
    ordinal: int
    digest: str
    shown_digest: str
    head_chars: int = 0
    tail_chars: int = 0
    handle: str = ""
    source: str = ""

    def apply(self, text: str) -> str:
        """Return the text in the place of `text`."""
        if self.kind == "arguments":
            return shorten_arguments(text, self.head_chars, self.tail_chars, self.handle)
        if self.kind == "result" and not (self.head_chars or self.tail_chars):
            return clearing_marker(text, self.handle, self.source)
        return shorten_text(text, self.head_chars, self.tail_chars, self.handle)

    def to_json(self) -> str:
        """Return plain JSON as `json.dumps` writes it, in a fifth of the time: every record names all active reductions.

        The handle is left out: it follows from the parts of the run, and the id of a record from what it shows.
        """
        return (
            f'{{"kind": "{self.kind}", "run": {self.run}, "ordinal": {self.ordinal}, "digest": {_quoted(self.digest)}, '
            f'"shown_digest": {_quoted(self.shown_digest)}, "head_chars": {self.head_chars}, "tail_chars": {self.tail_chars}}}'
        )


def by_place(reductions: Iterable[Reduction]) -> dict[PartName, Reduction]:
    """Return the reductions by kind, run and ordinal; the last of several for one part."""
    return {(item.kind, item.run, item.ordinal): item for item in reductions}


def with_text(part: Part, text: str) -> Part:
    """Return the reduced part with this text: a result (without its media), a call or a text."""
    if isinstance(part, ToolResult):
        return ToolResult(part.call_id, text, part.name, part.is_error)
    return ToolCall(part.id, part.name, text, part.opaque_chars) if isinstance(part, ToolCall) else Text(text)


def part_digest(kind: PartKind, text: str) -> str:
    """Return the digest of a text or a result's text, or of a call's arguments in canonical form."""
    return text_digest(canonical_arguments(text) if kind == "arguments" else text)


class Reducible(NamedTuple):
    """A part that could be shown smaller.

    Attributes:
        piece: Index of its piece.
        part: Index into that piece's parts.
        tool: The tool whose call or result it is; empty for a text.
        text: Its full text.
        tokens: Its estimate in tokens, before calibration, as the view shows it now.
        shown_chars: Its characters in the view now.
        call: The call of a result, or the call itself; None for a text, and for a result without its call.
        handles: Names it for the recall tool; None without that tool.
    """

    kind: PartKind
    run: int
    ordinal: int
    piece: int
    part: int
    tool: str
    text: str
    tokens: int
    shown_chars: int
    call: ToolCall | None = None
    handles: RunHandles | None = None

    def reduction(self, head_chars: int = 0, tail_chars: int = 0) -> Reduction:
        """Return the reduction that clears this part, or keeps these many characters of it."""
        handle = source = ""
        if self.handles is not None:
            handle = self.handles.find(self.kind, self.piece, self.part)
            if self.kind == "result" and not (head_chars or tail_chars):
                source = quote_call(self.call) if self.call else self.tool
        made = Reduction(
            kind=self.kind,
            run=self.run,
            ordinal=self.ordinal,
            digest=part_digest(self.kind, self.text),
            shown_digest="",
            head_chars=head_chars,
            tail_chars=tail_chars,
            handle=handle,
            source=source,
        )
        return made._replace(shown_digest=part_digest(self.kind, made.apply(self.text)))


class Place(NamedTuple):
    """The place of a part that a reduction can name in its run, and its full text.

    Attributes:
        piece: Index of its piece.
        number: Index into that piece's parts.
        text: For media, their identities.
    """

    piece: int
    number: int
    kind: PartKind
    ordinal: int
    part: Part
    text: str

    def text_under(self, reduction: Reduction) -> str:
        """Return the text that a view shows there under a reduction."""
        return describe_left_out(self.part) if self.kind == "media" else reduction.apply(self.text)


class Rewritten(NamedTuple, Generic[M]):
    """A host message as a view shows it.

    Attributes:
        pieces: The format's reading of it.
        reductions: The parts of it that are shown smaller.
        saved: The tokens they save, before calibration.
        alone: Its size in tokens before calibration, and in characters, if its one reduced part is its whole content; else None.
    """

    message: M
    pieces: tuple[Message, ...]
    reductions: tuple[Reduction, ...]
    saved: int
    alone: tuple[int, int] | None


def places(history: History[M], runs: Collection[int]) -> Iterator[tuple[int, Place]]:
    """Yield the results, call arguments and texts of these runs in order, as far as the history has them, each with its run.

    A result without its call has ordinal -1. Texts without a digest (system messages, our own summary and its pins) are left out,
    and so are empty texts: some frameworks write them and others do not.
    """
    first, end = min(runs, default=0), min(max(runs, default=-1) + 1, history.run_count)
    return (
        (found[0], place) for found in _runs(history, first, end) if found[0] in runs for place in _run_places(found)
    )


_Run: TypeAlias = tuple[int, int, Sequence[Piece], Mapping[str, int]]
"""A run, the index of its first piece, its pieces, and by id the places of the calls that its results answer."""


def _runs(history: History[M], first: int, end: int) -> Iterator[_Run]:
    first = max(first, history.base)
    starts = history.run_starts(first, max(first, end))
    first_piece = starts[0]
    pieces = history.pieces(first_piece, starts[-1])
    before = history.call_ordinals(first - 1)
    for run, (start, stop) in enumerate(pairwise(starts), first):
        own = history.call_ordinals(run)
        yield run, start, pieces[start - first_piece : stop - first_piece], own or before
        before = own


def run_texts(pieces: Iterable[Piece]) -> list[str]:
    """Return the texts of a run; joined, they are what its digest takes, since frameworks cut texts in different places."""
    return [
        part.text
        for piece in pieces
        if piece.side is not None
        for part in piece.message.parts
        if isinstance(part, Text) and part.text
    ]


def _run_places(run: _Run) -> Iterator[Place]:
    texts, media = count(), count()
    _, start, pieces, ordinals = run
    for index, piece in enumerate(pieces, start):
        for number, part in enumerate(piece.message.parts):
            match part:
                case ToolResult(call_id=call_id, text=text):
                    yield Place(index, number, "result", ordinals.get(call_id, -1), part, text)
                case ToolCall(id=call_id, arguments=text):
                    yield Place(index, number, "arguments", ordinals.get(call_id, -1), part, text)
                case Text(text=text) if text and piece.side is not None:
                    yield Place(index, number, "text", next(texts), part, text)
                case _:
                    pass
            if piece.side is not None and (held := find_media(part)):
                yield Place(index, number, "media", next(media), part, "\n".join(item.identity for item in held))


class RunHandles:
    """The handles of the parts of one run, made when the first is asked for.

    If two digests begin alike, the part that is later in the list has the longer handle: no new message changes an earlier one.

    Args:
        originals: A part that the list has in our shortened form keeps the handle of its original.
    """

    def __init__(self, run: _Run, originals: Originals) -> None:
        self._run, self._originals = run, originals

    def find(self, kind: PartKind, piece: int, number: int) -> str:
        """Return the handle of a part by its kind, the index of its piece, and its index in that piece."""
        return self._named[0][kind, piece, number]

    def add(self, kind: str, digest: str) -> str:
        """Return the handle of a further part that is named with this run."""
        return make_handle(kind, self._run[0], digest, self._named[1])

    @cached_property
    def _named(self) -> tuple[Mapping[tuple[PartKind, int, int], str], dict[str, str]]:
        """The handles by kind, piece and index in the piece; and by handle the digest that it names."""
        run, _, pieces, _ = self._run
        said = text_digest("".join(run_texts(pieces)))  # as digests take it: frameworks cut texts in different places
        handles: dict[tuple[PartKind, int, int], str] = {}
        taken: dict[str, str] = {}
        for place in _run_places(self._run):
            digest = said if place.kind == "text" else part_digest(place.kind, place.text)
            digest = self._originals.get((place.kind, run, place.ordinal, digest), digest)
            handles[place.kind, place.piece, place.number] = make_handle(place.kind, run, digest, taken)
        return handles, taken


def run_handles(history: History[M], run: int) -> RunHandles:
    """Return the handles of a run's parts."""
    nothing: _Run = run, 0, (), {}  # the list does not have this run
    return RunHandles(next(_runs(history, run, min(run + 1, history.run_count)), nothing), history.known.originals)


def reducible_parts(
    history: History[M],
    first_run: int,
    estimate: Estimate,
    reductions: Sequence[Reduction] = (),
    *,
    results_only: bool = False,
    rewritten: Mapping[int, Rewritten[M]] = MappingProxyType({}),
    has_recall: bool = False,
) -> list[Reducible]:
    """Return the results and call arguments from run `first_run` on, oldest first, as the view shows them.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        reductions: The active reductions; a cleared part has the size of its marker.
        results_only: Whether to leave the arguments out.
        rewritten: By index, the host messages that the view is known to show smaller.
        has_recall: Whether the model has the recall tool.
    """
    active = by_place(reductions)
    found: list[Reducible] = []
    calls: dict[str, ToolCall] = {}
    for each in _runs(history, first_run, history.run_count):
        run, start, pieces, ordinals = each
        handles = RunHandles(each, history.known.originals) if has_recall else None
        for index, piece in enumerate(pieces, start):
            for number, part in enumerate(piece.message.parts):
                kind: PartKind
                if isinstance(part, ToolResult):
                    kind, call_id, text = "result", part.call_id, part.text
                    call = calls.get(call_id)
                    tool = part.name or (call.name if call else "")
                elif isinstance(part, ToolCall):
                    kind, call_id, text = "arguments", part.id, part.arguments
                    calls[call_id] = call = part
                    tool = part.name
                    if results_only:
                        continue
                else:
                    continue
                ordinal = ordinals.get(call_id, -1)
                host = rewritten.get(piece.host)
                shown = host.alone if host is not None else None
                if shown is None:
                    shown = _size_in_view(piece, number, text, active.get((kind, run, ordinal)), estimate)
                found.append(Reducible(kind, run, ordinal, index, number, tool, text, *shown, call, handles))
    return found


def reducible_texts(
    history: History[M],
    first_run: int,
    estimate: Estimate,
    reductions: Sequence[Reduction] = (),
    *,
    excluded: Collection[int] = (),
    has_recall: bool = False,
) -> list[Reducible]:
    """Return the texts of users and the assistant from run `first_run` on, oldest first, as the view shows them.

    Never the current request, and never the pieces in `excluded`. The other arguments are those of `reducible_parts`.
    """
    active = by_place(reductions)
    return [
        Reducible("text", run[0], place.ordinal, place.piece, place.number, "", place.text, *shown, None, handles)
        for run in _runs(history, first_run, history.run_count)
        for handles in [RunHandles(run, history.known.originals) if has_recall else None]
        for place in _run_places(run)
        if place.kind == "text" and place.piece not in excluded and place.piece != history.request
        if (piece := history.piece(place.piece)).message.role in ("user", "assistant")
        for shown in [
            _size_in_view(piece, place.number, place.text, active.get(("text", run[0], place.ordinal)), estimate)
        ]
    ]


def still_true(history: History[M], reductions: Sequence[Reduction]) -> tuple[Reduction, ...]:
    """Return the reductions whose texts are in this history, in full or as the view shows them."""
    texts = {
        (place.kind, run, place.ordinal): part_digest(place.kind, place.text)
        for run, place in places(history, {item.run for item in reductions})
    }
    return tuple(
        item
        for item in reductions
        if texts.get((item.kind, item.run, item.ordinal)) in (item.digest, item.shown_digest)
    )


def _size_in_view(
    piece: Piece, number: int, text: str, applied: Reduction | None, estimate: Estimate
) -> tuple[int, int]:
    """Return a part's size in the view, in tokens before calibration and in characters."""
    part = piece.message.parts[number]
    if applied is None or part_digest(applied.kind, text) != applied.digest:
        # No reduction, or one of another text, which was here before a rewind or an edit.
        is_alone = len(piece.message.parts) == 1
        return piece.tokens if is_alone else estimate(Message(role="other", parts=(part,))), len(text)
    shown = applied.apply(text)
    return estimate(Message(role="other", parts=(with_text(part, shown),))), len(shown)
