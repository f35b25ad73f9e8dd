"""The parts of messages that a view can show smaller, and the reductions that do so.

Every reduction names its part by its place in the conversation (run, ordinal) and by its content, so that it is applied to
exactly that part in any list, and it says how the new text is made, so that the view is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from compaction_hooks.history import History, Piece
from compaction_hooks.history.digests import canonical_arguments, message_digest, number_calls, text_digest
from compaction_hooks.messages import M, Message, Part, PartAddress, Text, ToolCall, ToolResult
from compaction_hooks.tokens.estimator import describe_left_out, find_media
from compaction_hooks.view import ToolRule
from compaction_hooks.view.texts import (
    HEAD_RATIO,
    clearing_marker,
    make_handle,
    quote_call,
    shorten_arguments,
    shorten_text,
)

PartKind: TypeAlias = Literal["result", "arguments", "text", "media"]
Estimate: TypeAlias = Callable[[Message], int]
PartName: TypeAlias = tuple[PartKind, int, int, str]
"""The kind, run, ordinal and digest of a part: without the digest, two results of one call would have one name."""
RESULTS: Final[tuple[PartKind, ...]] = ("result",)
OF_TOOLS: Final[tuple[PartKind, ...]] = ("result", "arguments")
TEXTS: Final[tuple[PartKind, ...]] = ("text",)
MEDIA: Final[tuple[PartKind, ...]] = ("media",)
OF_A_REQUEST: Final[tuple[PartKind, ...]] = (*TEXTS, *MEDIA)
"""The kinds of parts that the current request may have; the view always shows its newest message in full."""
ALL_KINDS: Final[tuple[PartKind, ...]] = (*OF_TOOLS, *OF_A_REQUEST)


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

    @property
    def name(self) -> PartName:
        """The name of its part."""
        return self[:4]

    @property
    def shown_name(self) -> PartName:
        """The name that its part has in a list that was stored with the text in its place."""
        return *self[:3], self.shown_digest

    def apply(self, text: str) -> str:
        """Return the text in the place of `text`."""
        if self.kind == "arguments":
            return shorten_arguments(text, self.head_chars, self.tail_chars, self.handle)
        if self.kind == "result" and not (self.head_chars or self.tail_chars):
            return clearing_marker(text, self.handle, self.source)
        return shorten_text(text, self.head_chars, self.tail_chars, self.handle)


class Reducible(NamedTuple):
    """A part that could be shown smaller.

    Attributes:
        piece: Index of its piece.
        part: Index into that piece's parts.
        content: The part of the message.
        text: Its full text; of media, their identities.
        call: The call of a result, or the call itself; None for other parts, and for a result without its call.
        handles: Names it for the recall tool; None without that tool.
        tokens: Its estimate in tokens, before calibration, as the view shows it now; of media, the tokens that a view without
            them saves.
        shown_chars: Its characters in the view now; of media, in a request.
    """

    kind: PartKind
    run: int
    ordinal: int
    piece: int
    part: int
    content: Part
    text: str
    call: ToolCall | None = None
    handles: RunHandles | None = None
    tokens: int = 0
    shown_chars: int = 0

    @property
    def name(self) -> PartName:
        """The name of the part in its conversation."""
        return *self[:3], self.digest

    @property
    def tool(self) -> str:
        """The tool whose call or result it is; empty for other parts."""
        named = getattr(self.content, "name", "") if self.kind in OF_TOOLS else ""
        return named or (self.call.name if self.call else "")

    @property
    def digest(self) -> str:
        """The digest of its text, or of a call's arguments in canonical form."""
        return _digest(self.kind, self.text)

    def reduction(self, head_chars: int = 0, tail_chars: int = 0) -> Reduction:
        """Return the reduction that clears this part, or keeps these many characters of it."""
        handle = source = ""
        if self.handles is not None and self.kind != "media":
            handle = self.handles.find(self)
            if self.kind == "result" and not (head_chars or tail_chars):
                source = quote_call(self.call) if self.call else self.tool

        name = self.name
        made = Reduction(*name, name[-1], head_chars, tail_chars, handle, source)
        return made if self.kind == "media" else made._replace(shown_digest=_digest(self.kind, made.apply(self.text)))


def by_name(reductions: Iterable[Reduction]) -> dict[PartName, Reduction]:
    """Return the reductions by the names of their parts; the last of several for one part."""
    return {item.name: item for item in reductions}


def _digest(kind: PartKind, text: str) -> str:
    return text_digest(canonical_arguments(text) if kind == "arguments" else text)


def list_parts(
    history: History[Any],
    runs: Iterable[int],
    kinds: Collection[PartKind] = ALL_KINDS,
    *,
    has_recall: bool = False,
) -> Iterator[Reducible]:
    """Yield the parts of these runs, in order, without the sizes.

    Results and their media come in this order. Texts and media of messages that no digest covers (system messages, our own summary
    and its pins) are left out, and so are empty texts: some frameworks write them and others do not.

    Args:
        has_recall: Whether the model has the recall tool, so that the parts have handles.
    """
    last, start, before = -1, 0, dict[str, tuple[int, ToolCall]]()
    known = range(history.runs_before_list, history.run_count)

    for run in sorted(run for run in runs if run in known):
        if last != run - 1:
            start, before = history.run_start(run), history.run_calls(run - 1)

        end = history.run_start(run + 1)
        pieces = history.pieces(start, end)
        is_called = bool(pieces) and pieces[0].message.role == "assistant"
        own = number_calls(piece.message for piece in pieces) if is_called else {}
        handles = RunHandles(history, run) if has_recall else None

        yield from _list_run(pieces, run, start, own or before, kinds, handles)
        last, start, before = run, end, own


def _list_run(
    pieces: Sequence[Piece],
    run: int,
    first: int,
    calls: Mapping[str, tuple[int, ToolCall]],
    kinds: Collection[PartKind],
    handles: RunHandles | None,
) -> Iterator[Reducible]:
    texts = media = 0
    for index, piece in enumerate(pieces, first):
        for number, part in enumerate(piece.message.parts):
            if isinstance(part, ToolResult):
                ordinal, call = calls.get(part.call_id, (-1, None))
                if "result" in kinds:
                    yield Reducible("result", run, ordinal, index, number, part, part.text, call, handles)
            elif isinstance(part, ToolCall):
                if "arguments" in kinds:
                    ordinal, _ = calls.get(part.id, (-1, None))
                    yield Reducible("arguments", run, ordinal, index, number, part, part.arguments, part, handles)
            elif isinstance(part, Text) and part.text and piece.side is not None:
                if "text" in kinds:
                    yield Reducible("text", run, texts, index, number, part, part.text, None, handles)
                texts += 1

            if "media" in kinds and piece.side is not None and (held := find_media(part)):
                yield Reducible("media", run, media, index, number, part, "\n".join(item.identity for item in held))
                media += 1


def measure(
    history: History[M],
    parts: Iterable[Reducible],
    estimate: Estimate,
    reduced: Mapping[int, Message] = MappingProxyType({}),
) -> Iterator[Reducible]:
    """Yield parts with their sizes in a view; not media that it has left out already.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        reduced: By index, how the pieces read that the view shows smaller.
    """
    for part in parts:
        piece = history.piece(part.piece)
        message = reduced.get(part.piece)
        shown = message.parts[part.part] if message else part.content
        if part.kind == "media":
            if held := find_media(shown):
                saved = _size(shown, estimate) - _size(_without_media(shown), estimate)
                yield Reducible(*part[:-2], saved, sum(media.data_chars for media in held))
            continue

        is_whole = shown is part.content and len(piece.message.parts) == 1
        tokens = piece.tokens if is_whole else _size(shown, estimate)
        yield Reducible(*part[:-2], tokens, len(text_of(shown)))


def _size(part: Part, estimate: Estimate) -> int:
    return estimate(Message(role="other", parts=(part,)))


def _without_media(part: Part) -> Part:
    return with_text(part, describe_left_out(part))


def text_of(part: Part) -> str:
    """Return the text of a part: of a call its arguments; "" if it has none."""
    return part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "")


def with_text(part: Part, text: str) -> Part:
    """Return a part as it reads with another text, as `Format.rewrite` writes it: without the media that it had."""
    if isinstance(part, ToolCall):
        return replace(part, arguments=text)
    return ToolResult(part.call_id, text, part.name, part.is_error) if isinstance(part, ToolResult) else Text(text)


def reduce_part(part: Part, reduction: Reduction) -> Part:
    """Return a part as a reduction shows it."""
    return with_text(part, describe_left_out(part) if reduction.kind == "media" else reduction.apply(text_of(part)))


def run_texts(pieces: Iterable[Piece]) -> list[str]:
    """Return the texts of a run; joined, they are what its digest takes, since frameworks cut texts in different places."""
    return [
        part.text
        for piece in pieces
        if piece.side is not None
        for part in piece.message.parts
        if isinstance(part, Text) and part.text
    ]


class RunHandles:
    """The handles of the parts of one run, made when the first is asked for.

    If two digests begin alike, the part that is later in the list has the longer handle: no new message changes an earlier one.
    """

    def __init__(self, history: History[Any], run: int) -> None:
        self._history, self._run = history, run

    def find(self, part: Reducible) -> str:
        """Return the handle of a part of the run."""
        return self._named[0][part.kind, part.piece, part.part]

    def add(self, kind: str, digest: str) -> str:
        """Return the handle of a further part that is named with this run."""
        return make_handle(kind, self._run, digest, self._named[1])

    @cached_property
    def _named(self) -> tuple[Mapping[tuple[PartKind, int, int], str], dict[str, str]]:
        """The handles by kind, piece and index in the piece; and by handle the digest that it names."""
        history, run = self._history, self._run
        words_digest = text_digest("".join(run_texts(map(history.piece, history.run_pieces(run)))))
        handles: dict[tuple[PartKind, int, int], str] = {}
        taken: dict[str, str] = {}

        for part in list_parts(history, [run]):
            name = (*part[:3], words_digest) if part.kind == "text" else part.name
            # A part that the list has in our shortened form keeps the handle of its original.
            digest = history.own_texts.originals.get(name, name[-1])
            handles[part.kind, part.piece, part.part] = make_handle(part.kind, run, digest, taken)
        return handles, taken


def find_reduced(
    history: History[M],
    wanted: Mapping[PartName, Reduction],
    cut: int,
    pinned: Collection[int] = (),
    earlier: Mapping[int, Mapping[PartAddress, Reduction]] = MappingProxyType({}),
) -> dict[int, Mapping[PartAddress, Reduction]]:
    """Return the wanted reductions of the parts after the cut, by index of the host message and by address in it.

    None for a part whose content is not the one that was reduced.

    Args:
        pinned: The pieces before the cut that stay: their texts and media may be shown smaller too.
        earlier: Those of another view of this history, or of one that it grew from: they are used again if they are the wanted
            ones, and only the runs of others are searched. Not those of requests, which may be shown in full now.
    """
    found = {
        host: reductions
        for host, reductions in earlier.items()
        if history.first_piece(host) >= cut
        and all(wanted.get(item.name) == item and item.kind not in OF_A_REQUEST for item in reductions.values())
    }

    known = [item for reductions in found.values() for item in reductions.values()]
    last = max((item.run for item in known), default=0)  # it may have grown by an equal result of the same call
    names = wanted.keys() - {item.name for item in known if item.run < last}
    new: dict[int, dict[PartAddress, Reduction]] = {}
    for part in list_parts(history, {run for _, run, *_ in names}):
        reduction = wanted.get(part.name)
        # After a rewind the current request may be one that was shortened while a later one was current.
        is_of_request = part.kind in OF_A_REQUEST
        is_shown = part.piece >= cut or (is_of_request and part.piece in pinned)
        if reduction is None or not is_shown or (is_of_request and part.piece == history.request):
            continue

        piece = history.piece(part.piece)
        address = piece.number, part.part
        # The reduction of a result comes before that of its media: it has dropped them already.
        if address not in new.get(piece.host, ()):
            new.setdefault(piece.host, {})[address] = reduction
    return {host: {**found.get(host, {}), **new.get(host, {})} for host in found | new}


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
    otherwise. Results of tools whose rule is "never", pinned ones, and those that made tools known to the model, stay whole.

    Args:
        first_piece: The first piece to look at.
        pins: Digests of the messages that the host pinned.
    """
    runs = range(history.run_of(first_piece), history.run_count)
    named = (
        part
        for part in list_parts(history, runs, RESULTS, has_recall=has_recall)
        if part.piece >= first_piece and part.ordinal >= 0 and rules.get(part.tool) != "never"
        if not (isinstance(part.content, ToolResult) and part.content.finds)
    )

    made = [
        (part, _shorten(part, most_tokens, estimate))
        for part in measure(history, named, estimate)
        if part.tokens > most_tokens and not (pins and message_digest(history.piece(part.piece).message) in pins)
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
