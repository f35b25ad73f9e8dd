"""The views that a model made its reasoning behind: models that bind it refuse it behind others."""

from __future__ import annotations

import sys
from collections.abc import Set
from typing import Any, Final

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, Part, can
from compaction_hooks.reasoning import binds_reasoning, find_family, is_reasoning
from compaction_hooks.view import SealedReasoning
from compaction_hooks.view.reasoning import ALL_RUNS, NOT_STALE, newest_reasoning, stale_runs_of
from compaction_hooks.view.record import NATIVE_MARK, CompactionRecord, StaleRuns, other_view, reasoning_note


class BoundReasoning:
    """The views that the reasoning of one conversation was made behind.

    Attributes:
        models: Models whose provider refused reasoning; None is the controller's own.
        awaits_answer: Whether an answer to an earlier view than the next one may still come.
    """

    def __init__(self) -> None:
        self.models: set[str | None] = set()
        self.awaits_answer = False
        # By record id, None for the host's own list: its stale runs, the contents of its last note, and the number of runs when
        # another view was sent in its place.
        self._stale: dict[str | None, StaleRuns] = {}
        self._told: dict[str | None, tuple[StaleRuns, Set[str | None]]] = {}
        self._left_at: dict[str | None, int] = {}
        # The record of the view last sent, in a tuple, since that may be None; None while this process has sent none.
        self._shown: tuple[str | None] | None = None
        self._sent_runs = sys.maxsize  # runs of the list last sent
        self._history: History[Any] | None = None
        self._fixed: tuple[object, object] = (None, None)
        self._is_refused = False
        self._is_useless = False

    def binds(self, model: str | None, format: Format[M], policy: SealedReasoning) -> bool:
        """Return whether views for this model leave out stale reasoning."""
        family = find_family(model)
        if policy == "keep" or (family is not None and family.needed == "tool calls"):
            return False
        leaves_out = policy == "drop" or model in self.models or binds_reasoning(model)
        return leaves_out and can(format, "drop")

    def compare_list(self, history: History[Any], fixed: tuple[object, object]) -> None:
        """Notice messages that the host changed, inserted or took away since the last list, and another system prompt or tools.

        The runs that it took back are forgotten. Reasoning behind a change was made behind another view.
        """
        before, self._history = self._history, history
        known, self._fixed = self._fixed, (fixed[0] or self._fixed[0], fixed[1] or self._fixed[1])
        is_same = all(not old or old == new for old, new in zip(known, self._fixed, strict=True))
        first = (_first_changed_run(before, history) if before else None) if is_same else history.base
        if first is None:
            return
        self._left_at = {name: min(run, first) for name, run in self._left_at.items()}
        self._stale = {
            name: stale._replace(end=min(stale.end, first)) if stale.first < first else NOT_STALE
            for name, stale in self._stale.items()
        }
        if self._shown is not None and newest_reasoning(history, StaleRuns(0, first)) >= first:
            self._left_at[self._shown[0]] = first
            self._shown = _ANOTHER_LIST

    def stale_runs(self, history: History[M], record: CompactionRecord | None) -> StaleRuns:
        """Return the runs whose reasoning the model made behind other views than a record's.

        While one view is sent, the model's new reasoning belongs to it. Once another one is sent, all reasoning so far is older; if
        the first one comes back (an undo), only the reasoning made behind the other one is stale.
        """
        if self._is_useless:
            return ALL_RUNS
        name, run_count = record.id if record else None, history.run_count
        known = self._stale.get(name, stale_runs_of(record))
        end = run_count + self.awaits_answer
        if self._is_refused:
            return StaleRuns(0, end)
        if known.end > run_count + 1:  # the host went back since
            known = known._replace(end=run_count)
        left_at = self._left_at.get(name, 0)
        is_first = self._shown is None and not self.awaits_answer and left_at <= known.end
        if is_first or self._shown == (name,) or run_count <= left_at or self._goes_on_with(record, run_count):
            return known
        return StaleRuns(known.first if known.end else left_at, end)

    def _goes_on_with(self, record: CompactionRecord | None, run_count: int) -> bool:
        """Return whether a record takes the place of the view last sent without any cost of reasoning."""
        if record is None or record.stale_runs is None or self.awaits_answer:
            return False
        return self._shown == (record.parent,) and run_count <= record.seen_runs

    def has_answer_of_another(self, history: History[Any]) -> bool:
        """Return whether a list has reasoning that this process did not ask for: another worker may have made a record before."""
        return newest_reasoning(history, StaleRuns(0, self._sent_runs + 1)) >= 0

    def record_refusal(self, model: str | None) -> None:
        """Record that this model's provider refused the reasoning in the history.

        If that happens again, something changes in each request that no list shows: from then on no reasoning is sent.
        """
        self._is_useless = self._is_useless or model in self.models
        self.models.add(model)
        self._is_refused = True

    def record_call(self, history: History[M], record: CompactionRecord | None) -> bool:
        """Record that the next answer is to this view, not to one before, as was possible till now; return whether that is new."""
        name = record.id if record else None
        known = self._stale.get(name, NOT_STALE)
        if self._shown != (name,) or known.end != history.run_count + 1:
            return False
        self._stale[name] = known._replace(end=history.run_count)
        if newest_reasoning(history, NOT_STALE) < 0:
            self._told.pop(name, None)  # no note was written of it
        return True

    def record_sent(self, history: History[M], record: CompactionRecord | None) -> CompactionRecord | None:
        """Record that a view is sent; return a note for the store if more reasoning is stale than the record tells.

        The model of this call may accept it, and that of the next process may not.
        """
        name, self._sent_runs = record.id if record else None, history.run_count
        if self._shown != (name,) or self._is_refused:
            stale = self.stale_runs(history, record)
            if self._shown is not None:
                self._left_at[self._shown[0]] = history.run_count
            self._stale[name], self._shown = stale, (name,)
            self.awaits_answer = self._is_refused = False

        told = self._stale[name], frozenset(self.models)
        if told == self._told.get(name, (_told_by(record), frozenset[str | None]())):
            return None
        is_of_use = name in self._told or self.models or newest_reasoning(history, NOT_STALE) >= 0
        self._told[name] = told
        return reasoning_note(name, *told) if is_of_use else None

    def record_undo(self, undone: CompactionRecord, parent: CompactionRecord | None) -> CompactionRecord | None:
        """Record that the view of a record's parent, None for the host's list, comes back; return a note for the store.

        The next call may be made by another process, which does not know the view that was undone.
        """
        name, history = undone.parent, self._history
        has_reasoning = history is None or newest_reasoning(history, NOT_STALE) >= 0
        if self._is_useless or not has_reasoning:
            return None
        known = self._stale.get(name, stale_runs_of(parent))
        first = known.first if known.end else self._left_at.get(name, 0)
        if self._stale.get(undone.id, NOT_STALE).end > undone.seen_runs + 1:
            first = 0  # it was refused behind the undone view: a change that no process has seen concerns both
        self._stale[name] = StaleRuns(first, _UNTIL_NEXT_LIST)
        self._told[name] = self._stale[name], frozenset(self.models)
        return reasoning_note(name, *self._told[name])

    def learn_from_note(self, note: CompactionRecord) -> None:
        """Learn from a note of another process."""
        self.models.update(name or None for name in note.binding_models)
        self._told[note.parent] = note.stale_runs or NOT_STALE, frozenset(self.models)
        told = note.stale_runs or NOT_STALE
        self._is_useless = self._is_useless or told == ALL_RUNS
        if note.parent is not None and told.end < _UNTIL_NEXT_LIST:
            other = other_view(note.parent)
            self._left_at[other] = max(told.end, self._left_at.get(other, 0))
        self._add_stale(note.parent, NOT_STALE, told)

    def add_unpinned(self, record: CompactionRecord | None, runs: StaleRuns) -> None:
        """Record that answers in these runs are to another view than a record's: it had the request that was current then."""
        self._add_stale(record.id if record else None, stale_runs_of(record), runs)

    def _add_stale(self, name: str | None, default: StaleRuns, runs: StaleRuns) -> None:
        known = self._stale.get(name, default)
        if known.end < runs.end:
            self._stale[name] = StaleRuns(min(known.first, runs.first) if known.end else runs.first, runs.end)


_ANOTHER_LIST: Final = ("",)
"""The view of a list that the host has changed since; no record has this id."""


_UNTIL_NEXT_LIST: Final = sys.maxsize - 1
"""The end of stale runs that are all in the next list."""


def _told_by(record: CompactionRecord | None) -> StaleRuns | None:
    """Return the stale runs that another process reads from a record alone.

    It cannot read from it that the text was sent in place of native items, behind which later reasoning is stale.
    """
    if record is not None and record.native is not None and not record.id.endswith(NATIVE_MARK):
        return None
    return stale_runs_of(record)


def _first_changed_run(before: History[Any], after: History[Any]) -> int | None:
    """Return the first run in which a list is another than before, reasoning aside; None if it only grew or lost its beginning.

    Words in front of the answer to the list of before change it, too.
    """
    known, count = before.piece_count, after.piece_count
    if before.base != after.base:
        return None
    if before.log is not after.log or known > count:
        pairs = zip(before.pieces(), after.pieces(), strict=False)
        first = next((at for at, (old, new) in enumerate(pairs) if not _is_same(old.message, new.message)), count)
    else:
        first = known
    if first == known and (first == count or after.piece(first).message.role == "assistant"):
        return None
    return max(after.run_of(first), after.base) if first < count else after.run_count


def _is_same(old: Message, new: Message) -> bool:
    return old is new or (old.role == new.role and _without_reasoning(old) == _without_reasoning(new))


def _without_reasoning(message: Message) -> list[Part]:
    return [part for part in message.parts if not is_reasoning(part)]
