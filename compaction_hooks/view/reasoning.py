"""The reasoning that a view leaves out, because the model made it after other messages than those of the view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from compaction_hooks.history import History, Piece
from compaction_hooks.history.history import call_ids
from compaction_hooks.messages import (
    Message,
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
    if not has_reasoning(piece.message):
        return 0
    left = tuple(part for part in piece.message.parts if not is_reasoning(part))
    return piece.tokens - size_of(piece.message, left, estimate)


def size_of(message: Message, parts: tuple[Part, ...], estimate: Callable[[Message], int]) -> int:
    """Return the estimate of a message with these parts alone; 0 if nothing is in them."""
    return 0 if all(map(is_blank, parts)) else estimate(replace(message, parts=parts))
