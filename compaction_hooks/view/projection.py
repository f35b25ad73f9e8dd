"""The projection: a pure function from messages and a record to the view, the same in every process and framework."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain, groupby
from operator import is_
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, cast

from compaction_hooks import arguments
from compaction_hooks.formats import OpenAIChatFormat, format_of
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.messages import Format, M, Message, MessageFormat, NativeSummary, as_format, can
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.reasoning import binds_reasoning
from compaction_hooks.validity import needs_merging
from compaction_hooks.view.head import Head, NativeStart, find_head, find_start, native_of, pin_pieces
from compaction_hooks.view.parts import OF_A_REQUEST, Reduction, Rewritten, by_name, rewrite_parts
from compaction_hooks.view.reasoning import ALL_READ, NOT_STALE, StaleReasoning, UnreadReasoning, stale_runs_of
from compaction_hooks.view.record import CompactionRecord, Pin, StaleRuns, collect_own_texts
from compaction_hooks.view.texts import SUMMARY_MARKER


def is_true(history: History[M], record: CompactionRecord) -> bool:
    """Return whether the history begins with exactly the messages that the record covers, and goes on after them."""
    if history.digest_before(record.covered_runs) != record.covered_digest:
        return False
    # A late result after the cut that answers a call before it would be an orphan.
    return record.covered_runs == history.runs_before_list or history.is_boundary(record.covered_runs)


class MovedMark(NamedTuple, Generic[M]):
    """A cache mark that a summary has from a message that it covers.

    Attributes:
        host: Index of that message.
        mark: The mark.
        find: Returns the mark of a message, to see whether the host has moved it since.
        marked, unmarked: The summary with the mark and without it.
    """

    host: int
    mark: object
    find: Callable[[M], object]
    marked: M
    unmarked: M


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
        sources: These messages.
        unpinned_request: Index of a piece that is shown, or shown in full, only while it is the current request; None without one.
            It was not current when the record was made: the conversation was rewound to it since.
        rewritten: By index, the kept host messages that are shown smaller.
        is_settled: Whether the list holds all reduced parts and all stale reasoning; not if it was cut off before them, and may
            grow again.
        stale: The runs whose reasoning the view leaves out.
        unread: The reasoning that the view shows and the provider ignores.
        moved_mark: The cache mark that the summary has from a message it covers, or None.
        native: The prefix with native items in place of the summary, or None. `prefix` has the summary, `prefix_tokens` the items.
        start: The provider's own summary in the list, or None.
        unpinned_runs: Those of `find_unpinned_runs`; none in a candidate, whose answers are still to come.
    """

    prefix: Sequence[M]
    tail_start: int
    prefix_tokens: int
    pinned: tuple[int, ...]
    cut: int
    reused: Sequence[int] = ()
    sources: Sequence[M] = ()
    unpinned_request: int | None = None
    rewritten: Mapping[int, Rewritten[M]] = MappingProxyType({})
    is_settled: bool = True
    stale: StaleRuns = NOT_STALE
    unread: UnreadReasoning = ALL_READ
    moved_mark: MovedMark[M] | None = None
    native: Sequence[M] | None = None
    start: NativeStart | None = None
    unpinned_runs: StaleRuns = NOT_STALE

    @property
    def is_identity(self) -> bool:
        """Whether the view is the host's own list."""
        return not self.prefix and self.tail_start == 0

    def is_of(self, messages: Sequence[M]) -> bool:
        """Whether the view was made from the objects of this list, not from equal ones that the host has replaced since."""
        return all(map(is_, self.sources, map(messages.__getitem__, self.reused)))

    def view(self, messages: Sequence[M]) -> list[M]:
        """Return the view of the list that the history was read from, or of a list with copies of the same messages."""
        return self.portable(messages) if self.native is None else [*self.native, *messages[self.tail_start :]]

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


class _Builder(Generic[M]):
    """Builds a view message by message, and counts its tokens."""

    def __init__(self, history: History[M], format: Format[M], stale: StaleReasoning[M]) -> None:
        self.history = history
        self.format = format
        self.stale = stale
        self.messages: list[M] = []
        self.reused: list[int] = []
        self.tokens = 0
        self.saved: dict[int, int] = {}
        self.moved_mark: MovedMark[M] | None = None
        self.items: tuple[int, int, Sequence[M]] | None = None

    def add(self, pieces: Iterable[int], rewritten: Mapping[int, Rewritten[M]] = MappingProxyType({})) -> None:
        """Add pieces: their messages, or new ones with only these pieces."""
        log = self.history.log
        for host, group in groupby(pieces, key=lambda index: log.pieces[index].host):
            chosen = [*group]
            message = rewritten[host].message if host in rewritten else log.hosts[host]
            if len(chosen) < log.first_pieces[host + 1] - log.first_pieces[host]:
                message = self.format.take(message, [log.pieces[index].number for index in chosen])

            shown, self.saved[host] = self.stale.leave_out(message, chosen)
            if shown is not None:
                self.reused.append(host)
                self.messages.append(shown)

            for index in chosen:
                self.tokens += log.pieces[index].tokens

    def add_head(
        self,
        head: Head,
        native: Sequence[int],
        pinned: tuple[int, ...],
        rewritten: Mapping[int, Rewritten[M]],
        estimate: Callable[[Message], int],
        earlier: Projection[M] | None,
    ) -> tuple[int, ...]:
        """Add the beginning of a view: system messages, summaries and pins; return the pieces that stay from before the cut.

        Args:
            native: The pieces of a summary of the provider's own, which the view begins with.
            pinned: The pieces of pins.
            rewritten: By index, the host messages that are shown smaller.
            earlier: Another view of this history, or of one that it grew from.
        """
        history, cut = self.history, head.cut
        systems = history.systems(cut)

        # OpenAI and xAI take nothing before a sealed summary; Anthropic's system prompt is no message.
        is_sealed = bool(native) and bool(native_of(history.piece(native[0]).message).sealed)
        self.add([*native, *systems] if is_sealed else [*systems, *native])

        if head.rendered:
            summary = self.format.summary(head.rendered)
            hosts = self._hosts_with_marks(cut, pinned, earlier)
            self.moved_mark = _move_mark(history, self.format, summary, hosts)
            if head.items is not None:
                self._add_native(head.items, estimate)
            else:
                self.tokens += sum(map(estimate, self.format.read(summary)))
            self.messages.append(summary if self.moved_mark is None else self.moved_mark.marked)

        self.add(pinned, rewritten)
        return (*native, *pinned)

    def _add_native(self, native: NativeItems, estimate: Callable[[Message], int]) -> None:
        """Put native items in front; next to the provider's summary they may have messages that the provider kept."""
        messages = self.format.native(deepcopy(native.items))

        # A client library takes the system prompt out of the list only if it comes first.
        is_raw = self.format.provider == native.issuer.provider
        place = len(self.messages)
        self.items = 0 if is_raw else place, place, messages

        read = (piece for message in messages for piece in self.format.read(message))
        kept = (piece for piece in read if not any(isinstance(part, NativeSummary) for part in piece.parts))
        self.tokens += (native.tokens or 0) + sum(map(estimate, kept))

    @property
    def native_prefix(self) -> Sequence[M] | None:
        """The messages with the native items in place of the summary; None without any."""
        if self.items is None:
            return None
        first, place, items = self.items
        others = [*self.messages[:place], *self.messages[place + 1 :]]
        return [*others[:first], *items, *others[first:]]

    def _hosts_with_marks(self, cut: int, pinned: Iterable[int], earlier: Projection[M] | None) -> Iterator[int]:
        """Yield the covered host messages that may have a cache mark, the newest first.

        Those before an earlier cut are not searched again: the earlier view knows their mark.
        """
        history, start, marked = self.history, 0, list[int]()
        if earlier is not None and 0 < earlier.cut <= cut and earlier.cut < history.piece_count:
            start = history.piece(earlier.cut).host
            marked = [earlier.moved_mark.host] if earlier.moved_mark else []
        end = history.host_of(cut)
        shown = {history.piece(index).host for index in (*history.systems(cut), *pinned)}
        yield from (host for host in chain(reversed(range(start, end)), marked) if host not in shown)


def _move_mark(history: History[M], format: Format[M], summary: M, hosts: Iterable[int]) -> MovedMark[M] | None:
    """Return a summary with the first mark found in host messages; None without a mark, or if the format has none."""
    for host in hosts:
        mark = format.cache_mark(history.host(host))
        if mark is not None:
            return MovedMark(host, mark, format.cache_mark, format.with_cache_mark(summary, mark), summary)
    return None


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
    format: Format[M],
    estimate: Callable[[Message], int],
    earlier: Projection[M] | None = None,
    stale_runs: StaleRuns = NOT_STALE,
    issuer: Issuer | None = None,
    start: NativeStart | None = None,
    large: Iterable[Reduction] = (),
    unread: UnreadReasoning = ALL_READ,
) -> Projection[M]:
    """Apply a record that is true of this history; None is the host's own list.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
        earlier: Another record applied to this history, or to one that it grew from; its rewritten messages are reused.
        stale_runs: The runs whose reasoning is left out.
        issuer: The API and the model whose native items are shown; the format can write them.
        start: The provider's own summary in the list at which the view begins, if it is newer than the record's; None without one.
        large: Reductions of results that are too large for any view, made of this history; those of the record take precedence.
        unread: The reasoning that the provider ignores behind the record's summary.
    """
    large, reductions = tuple(large), record.reductions if record else ()
    if record is None and stale_runs == NOT_STALE and start is None and not large:
        return Projection((), 0, 0, (), 0)

    natives = frozenset(start.left_out) if start else frozenset[int]()
    stale = StaleReasoning(history, format, estimate, stale_runs, natives, can(format, "untie"))
    builder = _Builder(history, format, stale)
    head, native = find_head(history, record, issuer, start)
    cut = head.cut
    pins = _find_pinned(history, head, native)

    wanted = by_name((*large, *reductions))
    reusable = earlier.rewritten if earlier and earlier.is_settled else dict[int, Rewritten[M]]()
    rewritten = rewrite_parts(history, wanted, cut, format, estimate, reusable, pins)
    has_head = bool(cut or head.rendered)
    pinned = builder.add_head(head, native, pins, rewritten, estimate, earlier) if has_head else ()

    first = history.host_of(cut)
    is_partial = cut < history.piece_count and history.first_piece(first) != cut
    changed = [*rewritten, *stale.hosts(first, history.host_count)]
    tail_start = max([first + is_partial, *(host + 1 for host in changed)])
    builder.add(range(cut, history.first_piece(tail_start)), rewritten)

    unpinned_request = _find_unpinned_request(history, head.pins, reductions, cut)
    is_settled = stale.is_settled and all(item.run < history.run_count - 1 for item in wanted.values())
    saved = Counter(builder.saved)
    saved.update({host: shown.saved for host, shown in rewritten.items()})
    tokens = builder.tokens - saved.total()
    if start is not None and start.is_sent and start.is_newer(history, record) and not native:
        tokens = _tokens_from(history, start, tail_start, saved)
    elif head.rendered:
        tokens -= unread.weigh(history, (*pinned, *range(cut, history.piece_count)), estimate)
    return Projection(
        builder.messages,
        tail_start,
        tokens,
        pinned,
        cut,
        builder.reused,
        [*map(history.host, builder.reused)],
        unpinned_request,
        rewritten,
        is_settled,
        stale_runs,
        unread,
        builder.moved_mark,
        builder.native_prefix,
        start,
    )


def _find_pinned(history: History[M], head: Head, native: Sequence[int]) -> tuple[int, ...]:
    """Return the pieces of pins; after a rewind the current request may lie before the cut."""
    requests = {index for index in (history.request,) if index is not None and index < head.cut}
    return tuple(sorted({*pin_pieces(history, head.pins, head.cut), *requests} - {*native}))


def _find_unpinned_request(
    history: History[M], pins: Iterable[Pin], reductions: Iterable[Reduction], cut: int
) -> int | None:
    request = history.request
    if request is None or (request < cut and request in pin_pieces(history, pins, cut)):
        return None
    run = history.run_of(request)
    is_smaller = any(item.kind in OF_A_REQUEST and item.run == run for item in reductions)
    return request if request < cut or is_smaller else None


def find_unpinned_runs(history: History[Any], projection: Projection[Any]) -> StaleRuns:
    """Return the runs from requests that a view shows less than when they were current, to the next ones.

    Most are older than the record. After a rewind the answers there are to a view with the request in full.
    """
    rewritten = projection.rewritten.items()
    shorter = [host for host, shown in rewritten if any(item.kind in OF_A_REQUEST for item in shown.reductions)]
    requests = [history.request_before(history.first_piece(host + 1)) for host in shorter]

    covered = history.request_before(projection.cut)
    if covered not in projection.pinned:
        requests.append(covered)

    spans = [(request, history.request_after(request)) for request in requests if request is not None]
    runs = [(history.run_of(request), history.run_of(later)) for request, later in spans if later is not None]
    return StaleRuns(min(first for first, _ in runs), max(end for _, end in runs)) if runs else NOT_STALE


def project(
    messages: Sequence[M],
    record: CompactionRecord | None,
    *,
    format: MessageFormat[Any] | None = None,
    model: str | None = None,
) -> list[M]:
    """Return the view of a list under a record: system messages, summary, pins, then the recent messages.

    It is to be sent, not stored: for a provider that refuses user messages in a row they are one. A sealed summary of the
    provider's own is in front, as if it were this request's: the record does not tell who made it.

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
    projected = read_projection(messages, record, format=format, model=model)
    if projected is None:
        return list(messages)
    history, projection, chosen = projected
    view = projection.view(history.hosts())
    return chosen.merge(view) if needs_merging(chosen) else view


def read_projection(
    messages: Sequence[M],
    record: CompactionRecord | None,
    *,
    format: MessageFormat[Any] | None = None,
    model: str | None = None,
) -> tuple[History[M], Projection[M], Format[M]] | None:
    """Return a list as it reads, the projection of a record, and the format; None if the record is not true of the list.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
        FormatError: a message cannot be read.
    """
    arguments.check_messages(messages)
    given = {"record": record, "format": format, "model": model}
    arguments.check(_KINDS, given, given)

    chosen = as_format(cast("MessageFormat[M]", format or format_of(messages) or OpenAIChatFormat()))  # it reads these
    known = collect_own_texts([] if record is None else [record])
    history = HistoryReader(chosen, lambda _: 0, SUMMARY_MARKER).read(messages, known)
    if record is None or not is_true(history, record):
        return None

    stale_runs = stale_runs_of(record) if binds_reasoning(model) and can(chosen, "drop") else NOT_STALE
    start = find_start(history)
    return history, apply_record(history, record, chosen, lambda _: 0, stale_runs=stale_runs, start=start), chosen


_KINDS = {**arguments.KINDS, "record": arguments.instance_of(CompactionRecord)}
