"""The views that a model made its reasoning behind: models that bind it refuse it behind others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, Part, can
from compaction_hooks.reasoning import binds_reasoning, find_family, is_reasoning
from compaction_hooks.view import SealedReasoning
from compaction_hooks.view.reasoning import ALL_RUNS, NOT_STALE, newest_reasoning, stale_runs_of
from compaction_hooks.view.record import NATIVE_MARK, CompactionRecord, StaleRuns, other_view, reasoning_note


class Behind(NamedTuple):
    """What is known of the reasoning of a list next to one view.

    Attributes:
        stale: The runs whose reasoning the model made behind other views; None: those that the record tells.
        left_at: The number of runs when another view was sent in its place.
    """

    stale: StaleRuns | None = None
    left_at: int = 0


class BoundReasoning:
    """The views that the reasoning of one conversation was made behind.

    Attributes:
        refusals: How often the provider of each model refused reasoning; None is the controller's own model.
        pending: "answer" if an answer to an earlier view than the next one may still come; "refused" if the view last sent was
            refused for its reasoning, so that all of it is stale in the next one; else empty.
        views: By record id, None for the host's own list, what is known of the reasoning next to that view.
        shown: The record of the view last sent, in a tuple, since that may be None; None while this process has sent none.
        history: The last list.
    """

    def __init__(self) -> None:
        self.refusals: Counter[str | None] = Counter()
        self.pending: Literal["", "answer", "refused"] = ""
        self.views: dict[str | None, Behind] = {}
        self.shown: tuple[str | None] | None = None
        self.history: History[Any] | None = None

    @property
    def _is_useless(self) -> bool:
        """Whether something changes in each request that no list shows: a model refused reasoning twice."""
        return any(count > 1 for count in self.refusals.values())

    def binds(self, model: str | None, format: Format[M], policy: SealedReasoning) -> bool:
        """Return whether views for this model leave out stale reasoning."""
        family = find_family(model)
        if policy == "keep" or (family is not None and family.needed == "tool calls"):
            return False
        leaves_out = policy == "drop" or model in self.refusals or binds_reasoning(model)
        return leaves_out and can(format, "drop")

    def compare_list(self, history: History[Any], *, is_other_prefix: bool) -> None:
        """Notice messages that the host changed, inserted or took away since the last list.

        The runs that it took back are forgotten. Reasoning behind a change was made behind another view.

        Args:
            is_other_prefix: Whether the system prompt or the tools are others: then all reasoning was.
        """
        before, self.history = self.history, history
        first = history.base if is_other_prefix else _first_changed_run(before, history) if before else None
        if first is None:
            return
        for name, (stale, left_at) in self.views.items():
            if stale is not None:
                stale = stale._replace(end=min(stale.end, first)) if stale.first < first else NOT_STALE
            self.views[name] = Behind(stale, min(left_at, first))
        if self.shown is not None and newest_reasoning(history, StaleRuns(0, first)) >= first:
            self._change(self.shown[0], left_at=first)
            self.shown = _ANOTHER_LIST

    def stale_runs(self, history: History[M], record: CompactionRecord | None) -> StaleRuns:
        """Return the runs whose reasoning the model made behind other views than a record's.

        While one view is sent, the model's new reasoning belongs to it. Once another one is sent, all reasoning so far is older; if
        the first one comes back (an undo), only the reasoning made behind the other one is stale.
        """
        if self._is_useless:
            return ALL_RUNS
        run_count, awaits_answer = history.run_count, self.pending == "answer"
        if self.pending == "refused":
            return StaleRuns(0, run_count)
        known, left_at = self._known(record), self._find(_name(record)).left_at
        if known.end > run_count + 1:  # the host went back since
            known = known._replace(end=run_count)
        is_first = self.shown is None and not awaits_answer and left_at <= known.end
        if is_first or self.shown == (_name(record),) or run_count <= left_at or self._goes_on_with(record, run_count):
            return known
        return StaleRuns(known.first if known.end else left_at, run_count + awaits_answer)

    def _goes_on_with(self, record: CompactionRecord | None, run_count: int) -> bool:
        """Return whether a record takes the place of the view last sent without any cost of reasoning."""
        if record is None or record.stale_runs is None or self.pending == "answer":
            return False
        return self.shown == (record.parent,) and run_count <= record.seen_runs

    def has_answer_of_another(self, history: History[Any], sent_runs: int) -> bool:
        """Return whether a list has reasoning that this process did not ask for: another worker may have made a record before.

        Args:
            sent_runs: The runs of the list last sent.
        """
        return newest_reasoning(history, StaleRuns(0, sent_runs + 1)) >= 0

    def record_refusal(self, model: str | None) -> None:
        """Record that this model's provider refused the reasoning in the history.

        If that happens again, something changes in each request that no list shows: from then on no reasoning is sent.
        """
        self.refusals[model] += 1
        self.pending = "refused"

    def record_call(self, history: History[M], record: CompactionRecord | None) -> bool:
        """Record that the next answer is to this view, not to one before, as was possible till now; return whether that is new."""
        name = _name(record)
        known = self._find(name).stale or NOT_STALE
        if self.shown != (name,) or known.end != history.run_count + 1:
            return False
        self._change(name, stale=known._replace(end=history.run_count))
        return True

    def record_sent(
        self, history: History[M], record: CompactionRecord | None, notes: Iterable[CompactionRecord]
    ) -> CompactionRecord | None:
        """Record that a view is sent; return a note for the store if more reasoning is stale than the record tells.

        The model of this call may accept it, and that of the next process may not.

        Args:
            notes: The earlier notes of this record.
        """
        name = _name(record)
        if self.shown != (name,) or self.pending == "refused":
            stale = self.stale_runs(history, record)
            if self.shown is not None:
                self._change(self.shown[0], left_at=history.run_count)
            self._change(name, stale=stale)
            self.shown, self.pending = (name,), ""

        stale, models = self._find(name).stale or NOT_STALE, {model or "" for model in self.refusals}
        told = [(note.stale_runs, {*note.binding_models}) for note in notes]
        if (stale, models) in (told or [(_told_by(record), set[str]())]):
            return None
        is_of_use = told or models or newest_reasoning(history, NOT_STALE) >= 0
        return reasoning_note(name, stale, self.refusals) if is_of_use else None

    def record_undo(self, undone: CompactionRecord, parent: CompactionRecord | None) -> CompactionRecord | None:
        """Record that the view of a record's parent, None for the host's list, comes back; return a note for the store.

        The next call may be made by another process, which does not know the view that was undone.
        """
        name, history = undone.parent, self.history
        has_reasoning = history is None or newest_reasoning(history, NOT_STALE) >= 0
        if self._is_useless or not has_reasoning:
            return None
        stale, left_at = self._find(name)
        known = stale_runs_of(parent) if stale is None else stale
        first = known.first if known.end else left_at
        if (self._find(undone.id).stale or NOT_STALE).end > undone.seen_runs + 1:
            first = 0  # it was refused behind the undone view: a change that no process has seen concerns both
        self._change(name, stale=StaleRuns(first, _UNTIL_NEXT_LIST))
        return reasoning_note(name, StaleRuns(first, _UNTIL_NEXT_LIST), self.refusals)

    def learn_from_note(self, note: CompactionRecord) -> None:
        """Learn from a note of another process."""
        told = note.stale_runs or NOT_STALE
        for model in note.binding_models:
            self.refusals[model or None] = max(self.refusals[model or None], 2 if told == ALL_RUNS else 1)
        if note.parent is not None and told.end < _UNTIL_NEXT_LIST:
            other = other_view(note.parent)
            self._change(other, left_at=max(told.end, self._find(other).left_at))
        self._add_stale(note.parent, NOT_STALE, told)

    def add_unpinned(self, record: CompactionRecord | None, runs: StaleRuns) -> None:
        """Record that answers in these runs are to another view than a record's: it had the request that was current then."""
        self._add_stale(_name(record), stale_runs_of(record), runs)

    def _add_stale(self, name: str | None, default: StaleRuns, runs: StaleRuns) -> None:
        known = self._find(name).stale or default
        if known.end < runs.end:
            first = min(known.first, runs.first) if known.end else runs.first
            self._change(name, stale=StaleRuns(first, runs.end))

    def _known(self, record: CompactionRecord | None) -> StaleRuns:
        stale = self._find(_name(record)).stale
        return stale_runs_of(record) if stale is None else stale

    def _find(self, name: str | None) -> Behind:
        return self.views.get(name, Behind())

    def _change(self, name: str | None, **fields: Any) -> None:
        self.views[name] = self._find(name)._replace(**fields)


def _name(record: CompactionRecord | None) -> str | None:
    return record.id if record else None


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
