"""The projection: a pure function from messages and a record to the view, the same in every process and framework."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, cast

from compaction_hooks import arguments
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.history.digests import DIGEST_RULE, FIRST_RULE, message_names
from compaction_hooks.history.facts import is_only_reasoning
from compaction_hooks.messages import (
    DroppingFormat,
    M,
    MergingFormat,
    Message,
    MessageFormat,
    NativeFormat,
    NativeSummary,
    PartAddress,
    UntyingFormat,
)
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.reasoning import binds_reasoning
from compaction_hooks.view.cache_marks import MovedMark, move_mark
from compaction_hooks.view.native import NOWHERE, NativeStart, covered_pieces, find_start, native_of
from compaction_hooks.view.reasoning import NOT_STALE, StaleReasoning, stale_runs_of
from compaction_hooks.view.record import CompactionRecord, Pin, StaleRuns, collect_products
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
from compaction_hooks.view.summary_message import SUMMARY_MARKER

OF_A_REQUEST: Final[Collection[PartKind]] = ("text", "media")
"""The kinds of parts that the current request may have; the view always shows them in full."""


def is_true(history: History[M], record: CompactionRecord) -> bool:
    """Return whether the history begins with exactly the messages that the record covers, and goes on after them."""
    if not FIRST_RULE <= record.digest_rule <= DIGEST_RULE:
        return False  # a later version made it, with a digest that this one cannot compute
    if history.digest_before(record.covered_runs, record.digest_rule) != record.covered_digest:
        return False
    # A late result after the cut that answers a call before it would be an orphan.
    return record.covered_runs == history.base or history.is_boundary(record.covered_runs)


class NativeHead(NamedTuple, Generic[M]):
    """The native items of a view.

    Attributes:
        messages: The messages that begin the view.
        place: Index in the prefix of the summary that is left out for them.
    """

    messages: Sequence[M]
    place: int


class Projection(NamedTuple, Generic[M]):
    """One record applied to one history; true of that history and of all that grow from it.

    Attributes:
        prefix: The beginning of the view: system messages, summary, pins, and the kept messages up to the last one that is
            not the host's own object.
        tail_start: Index of the host message from which on the view is the host's list.
        prefix_tokens: Estimate of `prefix` in tokens, before calibration; less the tokens of messages that the provider ignores.
        pinned: Indexes of the pieces that stay from before the cut.
        cut: Index of the first of the recent pieces, which are kept.
        reused: Indexes of the host messages that the prefix holds, or holds copies of.
        unpinned_request: Index of a piece that is shown, or shown in full, only while it is the current request; None without one.
            It was not current when the record was made: the conversation was rewound to it since.
        rewritten: By index, the kept host messages that are shown smaller.
        is_settled: Whether the list holds all reduced parts and all stale reasoning; not if it was cut off before them, and may
            grow again.
        stale: The runs whose reasoning the view leaves out.
        moved_mark: The cache mark that the summary has from a message it covers, or None.
        native: The native items in place of the summary, or None. `prefix` has the summary, `prefix_tokens` the items.
        start: The provider's own summary in the list, or None.
    """

    prefix: Sequence[M]
    tail_start: int
    prefix_tokens: int
    pinned: tuple[int, ...]
    cut: int
    reused: tuple[int, ...] = ()
    unpinned_request: int | None = None
    rewritten: Mapping[int, Rewritten[M]] = MappingProxyType({})
    is_settled: bool = True
    stale: StaleRuns = NOT_STALE
    moved_mark: MovedMark[M] | None = None
    native: NativeHead[M] | None = None
    start: NativeStart | None = None

    @property
    def is_identity(self) -> bool:
        """Whether the view is the host's own list."""
        return not self.prefix and self.tail_start == 0

    def view(self, messages: Sequence[M]) -> list[M]:
        """Return the view of the list that the history was read from, or of a list with copies of the same messages."""
        if self.native is None:
            return self.portable(messages)
        items, place = self.native
        return [*items, *self.prefix[:place], *self.prefix[place + 1 :], *messages[self.tail_start :]]

    def portable(self, messages: Sequence[M]) -> list[M]:
        """Return the view with the summary, whether or not there are native items."""
        prefix, moved = self.prefix, self.moved_mark
        # Providers allow few cache marks: the summary has one only while the covered message still has it.
        if moved is not None and moved.find(messages[moved.host]) != moved.mark:
            prefix = [moved.unmarked if message is moved.marked else message for message in prefix]
        return [*prefix, *messages[self.tail_start :]]

    @property
    def reductions(self) -> list[Reduction]:
        """The reductions that the view shows."""
        return [item for shown in self.rewritten.values() for item in shown.reductions]

    def tokens(self, history: History[M]) -> int:
        """Return the view's estimate in tokens, before calibration."""
        return self.prefix_tokens + history.tokens(history.first_piece(self.tail_start))


class _ViewBuilder(Generic[M]):
    """Builds a view message by message, and counts its tokens."""

    def __init__(self, history: History[M], format: MessageFormat[M], stale: StaleReasoning[M]) -> None:
        self.history = history
        self.format = format
        self.stale = stale
        self.messages: list[M] = []
        self.reused: list[int] = []
        self.tokens = 0
        self.saved: dict[int, int] = {}
        self.moved_mark: MovedMark[M] | None = None
        self.native: NativeHead[M] | None = None

    def add(self, pieces: Iterable[int], rewritten: Mapping[int, Rewritten[M]] = MappingProxyType({})) -> None:
        """Add single pieces: their messages, or new ones with only these pieces."""
        for host, group in groupby(pieces, key=lambda index: self.history.piece(index).host):
            chosen = list(group)
            message = rewritten[host].message if host in rewritten else self.history.host(host)
            if len(chosen) < len(self.history.host_pieces(host)):
                message = self.format.take(message, [self.history.piece(index).number for index in chosen])
            shown, saved = self.stale.leave_out(message, chosen)
            if shown is not None:
                self.reused.append(host)
                self.messages.append(shown)
            self.tokens += sum(self.history.piece(index).tokens for index in chosen)
            self.saved[host] = saved

    def add_head(
        self, head: _Head, native: Sequence[int], estimate: Callable[[Message], int], earlier: Projection[M] | None
    ) -> tuple[int, ...]:
        """Add the beginning of a view: system messages, summaries and pins; return the pieces that stay from before the cut.

        Args:
            native: The pieces of a summary of the provider's own, which the view begins with.
        """
        history, cut = self.history, head.cut
        # After a rewind the current request may lie before the cut.
        asked = {index for index in (history.request,) if index is not None and index < cut}
        pinned = tuple(sorted({*pin_pieces(history, head.pins, cut), *asked} - {*native}))
        systems = history.systems(cut)
        # OpenAI and xAI take nothing before a sealed summary; Anthropic's system prompt is no message.
        is_sealed = bool(native) and bool(native_of(history.piece(native[0]).message).sealed)
        self.add([*native, *systems] if is_sealed else [*systems, *native])
        if head.rendered:
            summary = self.format.summary(head.rendered)
            self.moved_mark = move_mark(history, self.format, summary, self._hosts_with_marks(cut, pinned, earlier))
            if head.items is not None:
                self._add_native(head.items, estimate)
            else:
                self.tokens += sum(map(estimate, self.format.read(summary)))
            self.messages.append(summary if self.moved_mark is None else self.moved_mark.marked)
        self.add(pinned)
        return (*native, *pinned)

    def _add_native(self, native: NativeItems, estimate: Callable[[Message], int]) -> None:
        """Put native items in front; next to the provider's summary they may have messages that the provider kept."""
        messages = cast("NativeFormat[M]", self.format).native(deepcopy(native.items))
        self.native = NativeHead(messages, place=len(self.messages))
        read = (piece for message in messages for piece in self.format.read(message))
        kept = (piece for piece in read if not any(isinstance(part, NativeSummary) for part in piece.parts))
        self.tokens += (native.tokens or 0) + sum(map(estimate, kept))

    def _hosts_with_marks(self, cut: int, pinned: Iterable[int], earlier: Projection[M] | None) -> Iterator[int]:
        """Yield the covered host messages that may have a cache mark, the newest first.

        Those before an earlier cut are not searched again: the earlier view knows their mark.
        """
        history = self.history
        known = (
            earlier if earlier is not None and 0 < earlier.cut <= cut and earlier.cut < history.piece_count else None
        )
        start = history.piece(known.cut).host if known else 0
        end = history.piece(cut).host if cut < history.piece_count else history.host_count
        shown = {history.piece(index).host for index in (*history.systems(cut), *pinned)}
        yield from (host for host in reversed(range(start, end)) if host not in shown)
        if known and known.moved_mark:
            yield known.moved_mark.host

    def add_hosts(self, first: int, end: int, rewritten: Mapping[int, Rewritten[M]]) -> None:
        """Add whole messages, `first` to `end` (excluded)."""
        kept: dict[int, M] = dict(enumerate(self.history.hosts(first)[: end - first], first))
        self.tokens += self.history.tokens(self.history.first_piece(first), self.history.first_piece(end))
        kept.update({host: shown.message for host, shown in rewritten.items() if first <= host < end})
        for host in self.stale.hosts(first, end):
            left, self.saved[host] = self.stale.leave_out(kept[host], self.history.host_pieces(host))
            if left is None:
                del kept[host]
            else:
                kept[host] = left
        self.messages += kept.values()
        self.reused += kept


class _Head(NamedTuple):
    """The beginning of a view.

    Attributes:
        cut: The first piece after the covered ones; 0 if none are covered.
        rendered: The text of the summary; "" if there is none.
        pins: Messages before the cut that stay.
        items: The native items in place of the summary, or None.
    """

    cut: int = 0
    rendered: str = ""
    pins: tuple[Pin, ...] = ()
    items: NativeItems | None = None


def _find_head(
    history: History[M], record: CompactionRecord | None, issuer: Issuer | None, start: NativeStart | None
) -> tuple[_Head, Sequence[int]]:
    """Return the beginning of a view, and the pieces of the provider's own summary in it.

    Such a summary that is newer than ours takes the place of ours. A sealed one that ours covers stays in front of it.
    """
    cut = covered_pieces(history, record.covered_runs) if record else 0
    head = _Head(cut, record.rendered, record.pins, record.native_for(issuer)) if record and cut else _Head()
    if start is None or start.piece == NOWHERE:
        return head, ()
    item = native_of(history.piece(start.piece).message)
    if not start.is_newer(history, record):
        is_carried = start.is_sent and item.sealed and start.piece < cut and head.items is None
        return head, (start.piece,) if is_carried else ()
    if not start.is_sent:
        return _Head(start.piece, start.rendered, start.pins), ()
    if not item.is_first or not start.piece:
        return head, ()
    end = max(whole_step(history, start.piece)) + 1 if history.piece(start.piece).message.calls else start.piece + 1
    kept = [index for index in range(start.piece, end) if history.piece(index).message.role != "system"]
    return _Head(end, pins=start.pins), kept


def _tokens_from(history: History[M], start: NativeStart, tail_start: int, saved: Mapping[int, int]) -> int:
    """Return the tokens of the prefix of a view whose messages before a summary of the provider's own weigh nothing.

    The sum with those of the tail is the size of the view: the prefix is negative if the summary is in the tail.
    """
    systems = sum(history.piece(index).tokens for index in history.systems(start.piece))
    first = history.piece(start.piece).host
    gone = sum(tokens for host, tokens in saved.items() if host >= first)
    return systems + history.tokens(start.piece, history.first_piece(tail_start)) - gone


def apply_record(
    history: History[M],
    record: CompactionRecord | None,
    format: MessageFormat[M],
    estimate: Callable[[Message], int],
    earlier: Projection[M] | None = None,
    stale_runs: StaleRuns = NOT_STALE,
    made_here: Iterable[Reduction] = (),
    issuer: Issuer | None = None,
    start: NativeStart | None = None,
    large: Iterable[Reduction] = (),
) -> Projection[M]:
    """Apply a record that is true of this history; None is the host's own list.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        earlier: Another record applied to this history, or to one that it grew from; its rewritten messages are reused.
        stale_runs: The runs whose reasoning is left out.
        made_here: Reductions that were made of this history, so that their parts need not be hashed again.
        issuer: The API and the model whose native items are shown; the format can write them.
        start: The provider's own summary in the list at which the view begins, if it is newer than the record's; None without one.
        large: Reductions of results that are too large for any view, made of this history; those of the record take precedence.
    """
    large = tuple(large)
    if record is None and stale_runs == NOT_STALE and start is None and not large:
        return Projection((), 0, 0, (), 0)
    untie = format.untie if isinstance(format, UntyingFormat) else None
    natives = frozenset(start.left_out) if start else frozenset[int]()
    stale = StaleReasoning(history, format, estimate, stale_runs, natives, untie)
    builder = _ViewBuilder(history, format, stale)
    head, native = _find_head(history, record, issuer, start)
    cut = head.cut
    pinned = builder.add_head(head, native, estimate, earlier) if cut or head.rendered else ()
    wanted = by_place((*large, *(record.reductions if record else ())))
    rewritten = _reusable(history, wanted, cut, earlier) if earlier and earlier.is_settled else {}
    shown = by_place(item for message in rewritten.values() for item in message.reductions)
    for host, new in _new_texts(history, wanted, cut, {*made_here, *large}, wanted.keys() - shown.keys()).items():
        rewritten[host] = _rewrite(history, host, new, format, estimate)
    first = history.piece(cut).host if cut < history.piece_count else history.host_count
    is_partial = cut < history.piece_count and history.first_piece(first) != cut
    changed = [*rewritten, *stale.hosts(first, history.host_count)]
    tail_start = max([first + is_partial, *(host + 1 for host in changed)])
    if is_partial:
        builder.add(range(cut, history.first_piece(first + 1)), rewritten)
    builder.add_hosts(first + is_partial, tail_start, rewritten)
    reductions = record.reductions if record else ()
    unpinned_request = _find_unpinned_request(history, head.pins, reductions, cut)
    is_settled = stale.is_settled and all(item.run < history.run_count - 1 for item in wanted.values())
    saved = Counter(builder.saved)
    saved.update({host: shown.saved for host, shown in rewritten.items()})
    tokens = builder.tokens - saved.total()
    if start is not None and start.is_sent and start.is_newer(history, record) and not native:
        tokens = _tokens_from(history, start, tail_start, saved)
    return Projection(
        builder.messages,
        tail_start,
        tokens,
        pinned,
        cut,
        tuple(builder.reused),
        unpinned_request,
        rewritten,
        is_settled,
        stale_runs,
        builder.moved_mark,
        builder.native,
        start,
    )


def _find_unpinned_request(
    history: History[M], pins: Iterable[Pin], reductions: Iterable[Reduction], cut: int
) -> int | None:
    request = history.request
    if request is None:
        return None
    if request < cut:
        return None if request in pin_pieces(history, pins, cut) else request
    run = history.run_of(request)
    return request if any(item.kind in OF_A_REQUEST and item.run == run for item in reductions) else None


def pin_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> list[int]:
    """Return the indexes of the pieces before `cut` that the pins name, in order. Pins whose message is gone are skipped.

    What a pinned call or result cannot be shown without stays with it: another format may cut a step into other messages, whose
    digests no pin names.
    """
    found: set[int] = set()
    for pin in pins:
        within = history.run_pieces(pin.run) if pin.run >= history.base else range(history.run_start(history.base))
        matches = [i for i in within if i < cut and pin.digest in message_names(history.piece(i).message)]
        found.update(i for match in matches[-1:] for i in whole_step(history, match) if i < cut)
    return sorted(found)


def whole_step(history: History[M], index: int) -> set[int]:
    """Return a piece with all tool calls and results that belong to it, directly or through others.

    One message may answer the calls of several messages (Anthropic's results of a step that was split).
    """
    step, waiting = {index}, [index]
    while waiting:
        fresh = {partner for partner in _partners(history, waiting.pop()) if partner not in step}
        step |= fresh
        waiting.extend(fresh)
    return step


def _partners(history: History[M], index: int) -> Iterator[int]:
    """Yield the pieces that hold the calls this piece answers, and the results of the calls it makes; the nearest of each id.

    And the other items of an answer with an item of reasoning: OpenAI refuses these apart.
    """
    message = history.piece(index).message
    yield from _answer_items(history, index)
    wanted = {result.call_id for result in message.results}
    for other in range(index - 1, -1, -1) if wanted else ():
        found = wanted & {call.id for call in history.piece(other).message.calls}
        if found:
            yield other
        wanted -= found
    open_calls = {call.id for call in message.calls}
    for other in range(index + 1, history.piece_count) if open_calls else ():
        found = open_calls & {result.call_id for result in history.piece(other).message.results}
        if found:
            yield other
        open_calls -= found


def _answer_items(history: History[M], index: int) -> list[int]:
    run = history.run_of(index)
    if run < history.base or history.run_side(run) != "assistant":
        return []
    items = [item for item in history.run_pieces(run) if history.piece(item).message.role == "assistant"]
    return items if any(is_only_reasoning(history.piece(item).message) for item in items) else []


def _rewrite(
    history: History[M],
    host: int,
    new: Mapping[PartAddress, tuple[str, Reduction]],
    format: MessageFormat[M],
    estimate: Callable[[Message], int],
) -> Rewritten[M]:
    """Return a kept message with new texts."""
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
    history: History[M], wanted: Mapping[PartName, Reduction], cut: int, earlier: Projection[M]
) -> dict[int, Rewritten[M]]:
    """Return the rewritten messages of an earlier view with the same reductions; not requests, which may be shown in full now."""
    return {
        host: shown
        for host, shown in earlier.rewritten.items()
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


def project(
    messages: Sequence[M],
    record: CompactionRecord | None,
    *,
    format: MessageFormat[Any] | None = None,
    model: str | None = None,
) -> list[M]:
    """Return the view of a list under a record: system messages, summary, pins, then the recent messages.

    A sealed summary of the provider's own is in front, as if it were this request's: the record does not tell who made it.
    Kept messages are the same objects; the input is not changed. Without a record, or with one that is not true of these
    messages (a rewind before the cut, an edit of a covered message), the view is a copy of the list as it came.

    Args:
        format: The format of the messages; None: found by their parts, among those of `compaction_hooks.formats`.
        model: The model of the view. If it binds reasoning to the messages before it, the view leaves out reasoning from before
            the compaction.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    arguments.check_messages(messages)
    arguments.check(_KINDS, {"record": record, "format": format, "model": model})
    chosen = cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat())  # it reads these messages
    known = collect_products([] if record is None else [record])
    history = HistoryReader(chosen, lambda _: 0, SUMMARY_MARKER).read(messages, known)
    if record is None or not is_true(history, record):
        return list(messages)
    stale_runs = stale_runs_of(record) if binds_reasoning(model) and isinstance(chosen, DroppingFormat) else NOT_STALE
    start = find_start(history)
    view = apply_record(history, record, chosen, lambda _: 0, stale_runs=stale_runs, start=start).view(messages)
    from compaction_hooks.validity import needs_merging  # its rules are needed only after a compaction

    return cast("MergingFormat[M]", chosen).merge(view) if needs_merging(chosen) else view


_KINDS = {
    "record": arguments.instance_of(CompactionRecord).or_none(),
    "format": arguments.FORMAT.or_none(),
    "model": arguments.MODEL_NAME.or_none(),
}
