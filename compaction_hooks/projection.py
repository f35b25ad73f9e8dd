"""(messages, record) to the list to send: a pure function, the same in every process and framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Generic, cast, overload

from compaction_hooks.digests import message_digest
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader
from compaction_hooks.messages import M, Message, MessageFormat, PartAddress
from compaction_hooks.prompts import SUMMARY_MARKER
from compaction_hooks.record import CompactionRecord, Pin, known_products
from compaction_hooks.reductions import PartKind, Place, Reduction, by_place, part_digest, places, with_text


def newest_true(history: History[M], records: Sequence[CompactionRecord]) -> CompactionRecord | None:
    """Return the newest record that is true of this history: what it covers is there, word for word.

    Args:
        records: In the order of `precedence`, of one conversation with all its forks.
    """
    return next((record for record in reversed(records) if is_true(history, record)), None)


def is_true(history: History[M], record: CompactionRecord) -> bool:
    """Whether the history begins with exactly what the record covers, and goes on after it."""
    if history.digest_before(record.covered_runs) != record.covered_digest:
        return False
    # A late result after the cut that answers a call before it would be an orphan.
    return record.covered_runs == history.base or history.is_boundary(record.covered_runs)


@dataclass(frozen=True, slots=True)
class Projection(Generic[M]):
    """One record applied to one history, for that history and for all that grow from it.

    Attributes:
        prefix: What the view begins with: system messages, summary, pins, and the kept messages up to the last one that
            is not simply the host's object.
        rest: Index of the host message from which on the view is the host's list.
        prefix_tokens: Estimate of `prefix` in tokens, before calibration.
        pinned: Indexes of the pieces that stay from before the cut.
        cut: Index of the first piece that is kept because it is recent.
    """

    prefix: Sequence[M]
    rest: int
    prefix_tokens: int
    pinned: tuple[int, ...]
    cut: int

    @property
    def is_identity(self) -> bool:
        """Whether the view is the host's own list."""
        return not self.prefix and self.rest == 0

    def view(self, history: History[M]) -> list[M]:
        """Return the list to send: a new list; what is kept are the objects of the host."""
        return [*self.prefix, *history.log.hosts[self.rest : history.host_count]]

    def tokens(self, history: History[M]) -> int:
        """Return the view's estimate in tokens, before calibration."""
        return self.prefix_tokens + history.tokens(history.log.first_pieces[self.rest])


@dataclass(slots=True)
class _Draft(Generic[M]):
    """Host messages chosen piece by piece, with their size."""

    history: History[M]
    format: MessageFormat[M]
    messages: list[M] = field(default_factory=list[M])
    tokens: int = 0

    def add(self, pieces: Iterable[int], texts: dict[int, dict[PartAddress, str]] | None = None) -> None:
        for host, group in groupby(pieces, key=lambda index: self.history.piece(index).host):
            chosen = list(group)
            message = self.history.host(host)
            rewritten = (texts or {}).get(host)
            if rewritten:
                message = self.format.rewrite(message, rewritten)
            if len(chosen) < len(self.history.host_pieces(host)):
                message = self.format.take(message, [self.history.piece(index).number for index in chosen])
            self.messages.append(message)
            self.tokens += sum(self.history.piece(index).tokens for index in chosen)


def apply_record(
    history: History[M],
    record: CompactionRecord | None,
    format: MessageFormat[M],
    estimate: Callable[[Message], int],
) -> Projection[M]:
    """Apply a record that is true of this history; None is the host's own list.

    Args:
        estimate: Size of one neutral message in tokens, before calibration.
    """
    if record is None:
        return Projection((), 0, 0, (), 0)
    draft = _Draft(history, format)
    cut = 0
    pinned: tuple[int, ...] = ()
    if record.covered_runs > history.base:
        cut = history.run_start(record.covered_runs)
        pinned = tuple(_kept_from_before(history, record, cut))
        draft.add(history.systems(cut))
        summary = format.summary(record.rendered)
        draft.messages.append(summary)
        draft.tokens += sum(map(estimate, format.read(summary)))
        draft.add(pinned)
    texts, saved = _reduced_texts(history, record.reductions, cut, estimate)
    first = history.piece(cut).host if cut < history.piece_count else history.host_count
    is_partial = cut < history.piece_count and history.log.first_pieces[first] != cut
    rest = max([first + is_partial, *(host + 1 for host in texts)])
    draft.add(range(cut, history.log.first_pieces[rest]), texts)
    if not texts and cut == 0:
        return Projection((), 0, 0, (), 0)
    return Projection(draft.messages, rest, draft.tokens - saved, pinned, cut)


def _kept_from_before(history: History[M], record: CompactionRecord, cut: int) -> list[int]:
    """The pinned pieces before the cut; after a rewind, the request that is current again, too."""
    request = history.request
    asked = [request] if request is not None and request < cut else []
    return sorted({*pin_pieces(history, record.pins, cut), *asked})


def pin_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> list[int]:
    """Return the indexes of the pieces before `cut` that the pins name, in order. Pins whose message is gone are skipped."""
    found: set[int] = set()
    for pin in pins:
        within = history.run_pieces(pin.run) if pin.run >= history.base else range(history.run_start(history.base))
        matches = [i for i in within if i < cut and message_digest(history.piece(i).message) == pin.digest]
        found.update(matches[-1:])
    return sorted(found)


def _reduced_texts(
    history: History[M], reductions: Iterable[Reduction], cut: int, estimate: Callable[[Message], int]
) -> tuple[dict[int, dict[PartAddress, str]], int]:
    """The new texts by host message and address, and the tokens they save. A part that is not what was reduced stays."""
    wanted = by_place(reductions)
    texts: dict[int, dict[PartAddress, str]] = {}
    saved = 0
    for run in sorted({item.run for item in wanted.values()}):
        if not history.base <= run < history.run_count:
            continue
        for index, found in groupby(places(history, run), key=lambda place: place.piece):
            if index < cut:
                continue
            piece = history.piece(index)
            new = _new_texts(found, run, wanted, is_request=index == history.request)
            for number, text in new.items():
                texts.setdefault(piece.host, {})[piece.number, number] = text
            if new:
                saved += piece.tokens - estimate(_with_texts(piece.message, new))
    return texts, saved


def _new_texts(
    found: Iterable[Place], run: int, wanted: Mapping[tuple[PartKind, int, int], Reduction], *, is_request: bool
) -> dict[int, str]:
    new: dict[int, str] = {}
    for place in found:
        reduction = wanted.get((place.kind, run, place.ordinal))
        # After a rewind the request that is current may be one that was shortened when a later one was.
        if reduction is None or (is_request and place.kind == "text"):
            continue
        if part_digest(place.kind, place.text) == reduction.digest:
            new[place.number] = reduction.apply(place.text)
    return new


def _with_texts(message: Message, texts: Mapping[int, str]) -> Message:
    parts = [with_text(part, texts[number]) if number in texts else part for number, part in enumerate(message.parts)]
    return Message(role=message.role, parts=tuple(parts))


@overload
def project(
    messages: Sequence[Mapping[str, object]], record: CompactionRecord | None, *, format: None = None
) -> list[Mapping[str, object]]: ...


@overload
def project(messages: Sequence[M], record: CompactionRecord | None, *, format: MessageFormat[M]) -> list[M]: ...


def project(
    messages: Sequence[M], record: CompactionRecord | None, *, format: MessageFormat[M] | None = None
) -> list[M]:
    """Return the view of a list under a record: system messages, summary, pins, then the recent messages.

    Kept messages are the same objects; the input is not changed. Without a record, or with one that is not true of these
    messages (a rewind before the cut, an edit of what it covers), the view is a copy of the list as it came.

    Args:
        format: How the messages are written; None: OpenAI chat dicts.
    """
    # Without a format the overload above has bound M to the chat dict.
    chosen = format or cast("MessageFormat[M]", OpenAIChatFormat())
    known = known_products([] if record is None else [record])
    history = HistoryReader(chosen, lambda _: 0, SUMMARY_MARKER).read(messages, known)
    if record is None or not is_true(history, record):
        return list(messages)
    return apply_record(history, record, chosen, lambda _: 0).view(history)
