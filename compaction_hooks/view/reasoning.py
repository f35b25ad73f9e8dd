"""The reasoning that a view leaves out, because the model made it after other messages than those of the view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, NamedTuple

from compaction_hooks.history import History, Piece
from compaction_hooks.history.history import call_ids
from compaction_hooks.messages import (
    Format,
    M,
    Message,
    NativeSummary,
    Part,
    Provider,
    is_blank,
)
from compaction_hooks.reasoning import find_earlier, find_family, has_reasoning, is_reasoning
from compaction_hooks.view.record import CompactionRecord, StaleRuns

NOT_STALE: Final = StaleRuns()
ALL_RUNS: Final = StaleRuns(0, sys.maxsize)


def stale_runs_of(record: CompactionRecord | None) -> StaleRuns:
    """Return the runs whose reasoning a record's view leaves out for a model that binds it; without a record none.

    All reasoning of before is stale, even that before the first changed message, unless the record tells that it changed only
    messages behind all reasoning.
    """
    if record is None:
        return NOT_STALE
    return record.stale_runs or StaleRuns(0, record.seen_runs)


def newest_reasoning(history: History[Any], stale: StaleRuns) -> int:
    """Return the run of the newest reasoning that is not stale; -1 if there is none."""
    for index in history.answers():
        run = history.run_of(index)
        if run < stale.end and not stale.first:
            break  # all older ones are stale too: an idle call must not read them
        if not stale.first <= run < stale.end and has_reasoning(history.piece(index).message):
            return run
    return -1


def needs_open_turn(model: str | None) -> bool:
    """Return whether a model needs its reasoning of the turn under way."""
    family = find_family(model)
    return family is not None and family.needed == "open turn"


def spare_open_turn(stale: StaleRuns, history: History[Any], model: str | None) -> StaleRuns:
    """Return the stale runs without those of the turn under way, for a model that needs its reasoning there."""
    if not needs_open_turn(model) or history.request is None:
        return stale
    return stale._replace(end=min(stale.end, history.run_of(history.request)))


class UnreadReasoning(NamedTuple):
    """The runs whose reasoning weighs nothing in a view: `first` to `end` (excluded)."""

    first: int = 0
    end: int = 0

    def weigh(self, history: History[Any], pieces: Iterable[int], estimate: Callable[[Message], int]) -> int:
        """Return the tokens of these pieces that are unread, by estimate before calibration."""
        if not self.end:
            return 0
        first, stop = (history.run_start(max(run, history.runs_before_list)) for run in self)
        # Reasoning alone in front belongs to the first run.
        start = first if self.first > history.runs_before_list else 0
        held = (history.piece(index) for index in pieces if start <= index < stop)
        return sum(_weigh_reasoning(one, estimate) for one in held)


ALL_READ: Final = UnreadReasoning()


_USUAL_MODELS: Final[Mapping[str | None, str]] = {"openai_responses": "gpt-"}
"""By provider, the beginning of its models' names, for a call that names no model."""


def find_unread(history: History[Any], run_count: int, model: str | None, provider: Provider | None) -> UnreadReasoning:
    """Return the reasoning of the answer that ended the list, of so many runs, when a compaction was made.

    No compaction can leave that answer out, and in the next turn the provider ignores its reasoning. That of other messages counts:
    a server that did not ignore it would get views above the window.
    """
    is_read = find_earlier(model or _USUAL_MODELS.get(provider)) == "read"
    if is_read or run_count <= history.runs_before_list:
        return ALL_READ

    newest = [piece.message for piece in history.pieces(history.run_start(run_count - 1), history.run_start(run_count))]
    is_answered = newest[-1].role == "assistant" and not any(map(call_ids, newest))
    return UnreadReasoning(run_count - 1, run_count) if is_answered else ALL_READ


def _weigh_reasoning(piece: Piece, estimate: Callable[[Message], int]) -> int:
    return _tokens_without(piece, is_reasoning, estimate) if has_reasoning(piece.message) else 0


def _tokens_without(piece: Piece, is_gone: Callable[[Part], bool], estimate: Callable[[Message], int]) -> int:
    """Return the tokens that a piece saves without some of its parts."""
    left = tuple(part for part in piece.message.parts if not is_gone(part))
    if len(left) == len(piece.message.parts):
        return 0
    is_empty = all(map(is_blank, left))
    return piece.tokens - (0 if is_empty else estimate(replace(piece.message, parts=left)))


class StaleReasoning(NamedTuple, Generic[M]):
    """The stale reasoning of a history.

    A message loses all its reasoning, copies in other fields included: the provider would refuse a part of it too.

    Attributes:
        estimate: Size of one neutral message in tokens, before calibration.
        natives: Pieces whose summary of the provider's own is left out too: the request has another issuer.
        unties: Whether the format can untie messages.
    """

    history: History[M]
    format: Format[M]
    estimate: Callable[[Message], int]
    runs: StaleRuns
    natives: Set[int]
    unties: bool

    @property
    def is_settled(self) -> bool:
        """Whether the list cannot get more of it: it goes on after these runs."""
        return self.runs.end < self.history.run_count

    def hosts(self, first: int, end: int) -> list[int]:
        """Return the indexes of the host messages from `first` to `end` (excluded) that hold stale reasoning, in order."""
        history = self.history
        stale = self._pieces
        start, stop = max(stale.start, history.first_piece(first)), min(stale.stop, history.first_piece(end))
        pieces = history.pieces(start, stop) if start < stop else []
        hosts = {piece.host for piece in pieces if self._is_affected(piece.message)}
        native = {host for host in (history.piece(index).host for index in self.natives) if first <= host < end}
        return sorted(hosts | native)

    def leave_out(self, message: M, pieces: Sequence[int]) -> tuple[M | None, int]:
        """Return a shown message without its reasoning, or None if it has nothing else; and the tokens that this saves.

        Args:
            message: A host message, or a copy with some of its pieces or with shorter parts.
            pieces: Indexes of the pieces in the message.
        """
        stale = self._pieces if self.runs.end else range(0)
        is_stale = bool(stale) and any(
            at in stale and self._is_affected(self.history.piece(at).message) for at in pieces
        )
        if not is_stale and (not self.natives or self.natives.isdisjoint(pieces)):
            return message, 0

        saved = sum(self._tokens_saved(index, is_stale=is_stale) for index in pieces)
        listed = [
            ((number, place), part, self._is_gone(index, part, is_stale=is_stale))
            for number, (index, piece) in enumerate(zip(pieces, self.format.read(message), strict=True))
            for place, part in enumerate(piece.parts)
        ]
        places = [address for address, _, is_gone in listed if is_gone]
        if places and all(is_gone or is_blank(part) for _, part, is_gone in listed):
            return None, saved

        left = self.format.drop(message, places) if places else message
        return self.format.untie(left) if is_stale else left, saved

    def _is_affected(self, message: Message) -> bool:
        return (self.unties and message.role == "assistant") or has_reasoning(message)

    def _is_gone(self, index: int, part: Part, *, is_stale: bool) -> bool:
        """Return whether a part of a piece is left out."""
        return (is_stale and is_reasoning(part)) or (isinstance(part, NativeSummary) and index in self.natives)

    @property
    def _pieces(self) -> range:
        """The pieces whose reasoning is stale; those before the first run go with it."""
        (first, end), history = self.runs, self.history
        start = history.run_start(first) if first > history.runs_before_list else 0
        return range(start, history.run_start(max(end, history.runs_before_list)) if end else 0)

    def _tokens_saved(self, index: int, *, is_stale: bool) -> int:
        """Return the tokens that a piece saves without these parts."""
        is_gone = partial(self._is_gone, index, is_stale=is_stale)
        return _tokens_without(self.history.piece(index), is_gone, self.estimate)
