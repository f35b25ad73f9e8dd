"""The builder of a view: its beginning, and the messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain, groupby
from types import MappingProxyType
from typing import Generic, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, NativeSummary
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.view.cache_marks import MovedMark, move_mark
from compaction_hooks.view.native import NOWHERE, NativeStart, covered_pieces, native_of
from compaction_hooks.view.parts import Rewritten
from compaction_hooks.view.pins import pin_pieces, whole_step
from compaction_hooks.view.reasoning import StaleReasoning
from compaction_hooks.view.record import CompactionRecord, Pin


class NativeHead(NamedTuple, Generic[M]):
    """The native items of a view.

    Attributes:
        messages: The messages that begin the view.
        place: Index in the prefix of the summary that is left out for them.
        is_first: Whether they are in front of the system messages too.
    """

    messages: Sequence[M]
    place: int
    is_first: bool


class Head(NamedTuple):
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


def find_head(
    history: History[M], record: CompactionRecord | None, issuer: Issuer | None, start: NativeStart | None
) -> tuple[Head, Sequence[int]]:
    """Return the beginning of a view, and the pieces of the provider's own summary in it.

    Such a summary that is newer than ours takes the place of ours. A sealed one that ours covers stays in front of it.
    """
    cut = covered_pieces(history, record.covered_runs) if record else 0
    head = Head(cut, record.rendered, record.pins, record.native_for(issuer)) if record and cut else Head()
    if start is None or start.piece == NOWHERE:
        return head, ()
    item = native_of(history.piece(start.piece).message)
    if not start.is_newer(history, record):
        is_carried = start.is_sent and item.sealed and start.piece < cut and head.items is None
        return head, (start.piece,) if is_carried else ()
    if not start.is_sent:
        return Head(start.piece, start.rendered, start.pins), ()
    if not item.is_first or not start.piece:
        return head, ()
    end = max(whole_step(history, start.piece)) + 1 if history.piece(start.piece).message.calls else start.piece + 1
    kept = [index for index in range(start.piece, end) if history.piece(index).message.role != "system"]
    return Head(end, pins=start.pins), kept


class ViewBuilder(Generic[M]):
    """Builds a view message by message, and counts its tokens."""

    def __init__(self, history: History[M], format: Format[M], stale: StaleReasoning[M]) -> None:
        self.history = history
        self.format = format
        self.stale = stale
        self.messages: list[M] = []
        self.reused: list[tuple[int, M]] = []
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
                self.reused.append((host, self.history.host(host)))
                self.messages.append(shown)
            self.tokens += sum(self.history.piece(index).tokens for index in chosen)
            self.saved[host] = saved

    def add_head(
        self,
        head: Head,
        native: Sequence[int],
        estimate: Callable[[Message], int],
        earlier_cut: int,
        earlier_mark: MovedMark[M] | None,
    ) -> tuple[int, ...]:
        """Add the beginning of a view: system messages, summaries and pins; return the pieces that stay from before the cut.

        Args:
            native: The pieces of a summary of the provider's own, which the view begins with.
            earlier_cut: The cut of another view of this history, or of one that it grew from; 0 if there is none.
            earlier_mark: The cache mark that the summary of that view has.
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
            hosts = self._hosts_with_marks(cut, pinned, earlier_cut, earlier_mark)
            self.moved_mark = move_mark(history, self.format, summary, hosts)
            if head.items is not None:
                self._add_native(head.items, estimate)
            else:
                self.tokens += sum(map(estimate, self.format.read(summary)))
            self.messages.append(summary if self.moved_mark is None else self.moved_mark.marked)
        self.add(pinned)
        return (*native, *pinned)

    def _add_native(self, native: NativeItems, estimate: Callable[[Message], int]) -> None:
        """Put native items in front; next to the provider's summary they may have messages that the provider kept."""
        messages = self.format.native(deepcopy(native.items))
        # A client library takes the system prompt out of the list only if it comes first.
        is_raw = self.format.provider == native.issuer.provider
        self.native = NativeHead(messages, len(self.messages), is_raw)
        read = (piece for message in messages for piece in self.format.read(message))
        kept = (piece for piece in read if not any(isinstance(part, NativeSummary) for part in piece.parts))
        self.tokens += (native.tokens or 0) + sum(map(estimate, kept))

    def _hosts_with_marks(
        self, cut: int, pinned: Iterable[int], earlier_cut: int, earlier_mark: MovedMark[M] | None
    ) -> Iterator[int]:
        """Yield the covered host messages that may have a cache mark, the newest first.

        Those before an earlier cut are not searched again: the earlier view knows their mark.
        """
        history = self.history
        is_known = 0 < earlier_cut <= cut and earlier_cut < history.piece_count
        start = history.piece(earlier_cut).host if is_known else 0
        end = history.host_of(cut)
        shown = {history.piece(index).host for index in (*history.systems(cut), *pinned)}
        marked = [earlier_mark.host] if is_known and earlier_mark else []
        yield from (host for host in chain(reversed(range(start, end)), marked) if host not in shown)

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
        self.reused += ((host, self.history.host(host)) for host in kept)
