"""The older messages of the current request: the newest of them stay whole, the others are shortened, before a cut too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate, Goal, shrink
from compaction_hooks.strategies.reduce_parts import LEAST_KEPT_CHARS, choose_shortened, excess_tokens
from compaction_hooks.view.parts import (
    OF_A_REQUEST,
    TEXTS,
    PartKind,
    Reducible,
    Reduction,
    by_name,
    find_reduced,
    list_parts,
    measure,
)
from compaction_hooks.view.references import View
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.view_of import read_reduced

SHORTENED_RATIO = 0.1
"""The part of the target that the shortened messages of a request may take, next to what is kept."""
MOST_SHORTENED = 20
"""The most messages before a cut that are shortened; what is older is in the summary alone."""


class ShortRequests(NamedTuple):
    """Messages of the current request before a cut that do not all fit whole.

    Attributes:
        whole: The pieces that are small enough to stay whole.
        digests: By piece that is shown shortened, the digest of the shortened message.
        reductions: The parts of them that are shown smaller.
        tokens: The size of all these, before calibration.
    """

    whole: tuple[int, ...]
    digests: dict[int, str]
    reductions: tuple[Reduction, ...]
    tokens: int


def shorten_requests(snapshot: Snapshot[M], pieces: Sequence[int], room: int) -> ShortRequests:
    """Shorten messages of the current request to the tokens of a room, or to the least that they can be.

    Media in them go first; all texts get about the same length. Messages at the head of a stored view were shortened before, and
    are not again: those without room are in the summary alone.
    """
    history = snapshot.history
    whole, able = list[int](), list[int]()
    for index in reversed(pieces[-MOST_SHORTENED:]):
        if history.piece(index).side is not None:
            able.insert(0, index)
        elif history.piece(index).tokens <= max(room, LEAST_KEPT_CHARS):  # the least, with its marker, has fewer tokens
            whole.append(index)
            room -= history.piece(index).tokens

    parts = list_parts_of(snapshot, able, OF_A_REQUEST)
    texts = [part for part in parts if part.kind == "text"]
    excess = sum(part.tokens for part in texts) - room
    media = [part.reduction() for part in parts if part.kind == "media"]
    made = [*media, *choose_shortened(texts, excess_tokens=excess, rules={}, least_chars=LEAST_KEPT_CHARS)]

    digests, tokens = rewrite(snapshot, able, made)
    whole += [index for index in able if index not in digests]
    tokens += sum(history.piece(index).tokens for index in whole)
    return ShortRequests(tuple(whole), digests, tuple(made), tokens)


def shorten_oldest(snapshot: Snapshot[M], goal: Goal[M], limit: int) -> Candidate[M] | None:
    """Return the candidate so far with as many older messages of the current request shortened as must be, the oldest first."""
    view = goal.start.view if goal.start else snapshot.view
    pinned = snapshot.user_pinned_pieces()
    shown = [piece for piece in snapshot.older_requests if piece >= view.cut or piece in view.pinned]
    parts = list_parts_of(snapshot, [piece for piece in shown if piece not in pinned], TEXTS, view)

    excess = excess_tokens(snapshot, goal, limit)
    chosen: list[Reduction] = []
    for _, group in groupby(parts, key=attrgetter("piece")):
        if excess <= 0:
            break
        texts = [*group]
        made = choose_shortened(texts, excess_tokens=excess, rules={}, least_chars=LEAST_KEPT_CHARS)
        excess -= sum(_gain(part, by_name(made)[part.name]) for part in texts if part.name in by_name(made))
        chosen += made

    candidate = shrink(snapshot, goal, chosen)
    return candidate and _with_pins(snapshot, candidate, [part.piece for part in parts if part.piece < view.cut])


def _gain(part: Reducible, reduction: Reduction) -> int:
    return int(part.tokens * (1 - len(reduction.apply(part.text)) / part.shown_chars))


def _with_pins(snapshot: Snapshot[M], candidate: Candidate[M], pieces: Collection[int]) -> Candidate[M]:
    """Return a candidate whose pins tell how these pieces are shown, so that a stored view is recognized."""
    record, history = candidate.record, snapshot.history
    digests, _ = rewrite(snapshot, pieces, [item for item in record.reductions if item.kind in OF_A_REQUEST])
    shown = {(history.run_of(index), message_digest(history.piece(index).message)): digests[index] for index in digests}
    pins = [pin._replace(shown_digest=shown.get((pin.run, pin.digest), pin.shown_digest)) for pin in record.pins]
    return replace(candidate, record=replace(record, pins=tuple(pins)))


def list_parts_of(
    snapshot: Snapshot[M], pieces: Collection[int], kinds: Collection[PartKind], view: View[M] | None = None
) -> list[Reducible]:
    """Return the parts of these pieces with their sizes, in a view or in full."""
    history, estimate = snapshot.history, snapshot.estimator.estimate_message_tokens
    listed = list_parts(history, {*map(history.run_of, pieces)}, kinds, has_recall=snapshot.has_recall)
    able = [part for part in listed if part.piece in pieces]
    return [*measure(history, able, estimate, view.reduced if view else {})]


def rewrite(
    snapshot: Snapshot[M], pieces: Iterable[int], reductions: Iterable[Reduction]
) -> tuple[dict[int, str], int]:
    """Return the digests of these pieces as reductions show them, by piece, without those that have none; and their tokens."""
    history, estimate = snapshot.history, snapshot.estimator.estimate_message_tokens
    reduced = find_reduced(history, by_name(reductions), 0)
    shown = {host: read_reduced(history, host, items, snapshot.format) for host, items in reduced.items()}
    places = {index: history.piece(index) for index in pieces}
    read = {n: shown[place.host][place.number] for n, place in places.items() if place.host in shown}
    return {index: message_digest(message) for index, message in read.items()}, sum(map(estimate, read.values()))
