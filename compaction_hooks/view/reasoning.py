"""The reasoning that a view leaves out, because the model made it after other messages than those of the view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, cast

from compaction_hooks.history import History
from compaction_hooks.messages import DroppingFormat, M, Message, MessageFormat, is_blank
from compaction_hooks.reasoning import binds_reasoning, is_reasoning
from compaction_hooks.view.record import CompactionRecord


def stale_runs_of(record: CompactionRecord | None) -> int:
    """Return the run before which a record makes reasoning stale: the end of the history when the record was made.

    If the record does not have it (an older version), all reasoning is stale; without a record none is.
    """
    return 0 if record is None else record.seen_runs or sys.maxsize


class BoundReasoning:
    """The state of one conversation's refused reasoning that its records do not have.

    Attributes:
        models: Models whose provider refused reasoning; None is the controller's own.
        stale_runs: The run before which reasoning is stale in addition to the record's.
        is_rewritten: Whether the view's beginning has changed since the last view was returned: then all reasoning before the next
            one is stale.
    """

    def __init__(self) -> None:
        self.models: set[str | None] = set()
        self.stale_runs = 0
        self.is_rewritten = False

    def binds(self, model: str | None, format: MessageFormat[M]) -> bool:
        """Return whether views for this model leave out stale reasoning."""
        return (model in self.models or binds_reasoning(model)) and isinstance(format, DroppingFormat)

    def stale_before(self, history: History[M], record: CompactionRecord | None) -> int:
        """Return the run before which reasoning is stale for a model that binds it."""
        return max(stale_runs_of(record), history.run_count if self.is_rewritten else self.stale_runs)

    def record_refusal(self, model: str | None) -> None:
        """Record that this model's provider refused the reasoning in the history."""
        self.models.add(model)
        self.is_rewritten = True

    def remember_sent(self, history: History[M]) -> None:
        """Record that a view was returned: the model's next reasoning belongs to it."""
        if self.is_rewritten:
            self.stale_runs, self.is_rewritten = history.run_count, False


class StaleReasoning(NamedTuple, Generic[M]):
    """The reasoning in the runs of a history before `runs`; none if that is 0.

    A message loses all its reasoning, copies in other fields included: the provider would refuse a part of it too.

    Attributes:
        estimate: Size of one neutral message in tokens, before calibration.
    """

    history: History[M]
    format: MessageFormat[M]
    estimate: Callable[[Message], int]
    runs: int

    @property
    def is_settled(self) -> bool:
        """Whether the list cannot get more of it: it goes on after these runs."""
        return not self.runs or self.runs < self.history.run_count

    def hosts(self, first: int, end: int) -> list[int]:
        """Return the indexes of the host messages from `first` to `end` (excluded) that hold stale reasoning, in order."""
        history = self.history
        start, stop = history.first_piece(first), min(self._end, history.first_piece(end))
        pieces = history.pieces(start, stop) if start < stop else []
        return [*dict.fromkeys(piece.host for piece in pieces if _has_reasoning(piece.message))]

    def leave_out(self, message: M, pieces: Sequence[int]) -> tuple[M | None, int]:
        """Return a shown message without its reasoning, or None if it has nothing else; and the tokens that this saves.

        Args:
            message: A host message, or a copy with some of its pieces or with shorter parts.
            pieces: Indexes of the pieces in the message.
        """
        if not any(index < self._end and _has_reasoning(self.history.piece(index).message) for index in pieces):
            return message, 0
        saved = sum(self._tokens_saved(index) for index in pieces)
        read = self.format.read(message)
        if all(is_reasoning(part) or is_blank(part) for piece in read for part in piece.parts):
            return None, saved
        places = [
            (number, place)
            for number, piece in enumerate(read)
            for place, part in enumerate(piece.parts)
            if is_reasoning(part)
        ]
        return cast("DroppingFormat[M]", self.format).drop(message, places), saved

    @property
    def _end(self) -> int:
        """The first piece whose reasoning is not stale."""
        return self.history.run_start(max(self.runs, self.history.base)) if self.runs else 0

    def _tokens_saved(self, index: int) -> int:
        """Return the tokens that a piece saves without its reasoning."""
        piece = self.history.piece(index)
        left = tuple(part for part in piece.message.parts if not is_reasoning(part))
        if len(left) == len(piece.message.parts):
            return 0
        is_empty = all(map(is_blank, left))
        return piece.tokens - (0 if is_empty else self.estimate(replace(piece.message, parts=left)))


def _has_reasoning(message: Message) -> bool:
    return any(map(is_reasoning, message.parts))
