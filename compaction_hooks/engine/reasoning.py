"""Sealed reasoning of a conversation that a model would refuse, because it made it behind other messages.

1. Reasoning is *stale* if the beginning of what is sent is another one than when the model made it.
2. When that beginning changes (another record, an edit, another system prompt, a refusal), all reasoning so far is stale from then
   on, also if the former beginning comes back. So one number tells it: reasoning before that run is stale.
3. A record tells what was stale when it was made, and a note for the store what became stale since, for the next process. While a
   view has a notice that no other process knows, the note tells that all behind it is stale there.
4. A model whose provider refused reasoning twice gets none any more: something changes in each request that no list shows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Literal

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M, Message, Part, can
from compaction_hooks.reasoning import binds_reasoning, find_family, has_reasoning, is_reasoning
from compaction_hooks.view import SealedReasoning
from compaction_hooks.view.parts import OF_A_REQUEST
from compaction_hooks.view.reasoning import ALL_RUNS, NOT_STALE, newest_reasoning, spare_open_turn, stale_runs_of
from compaction_hooks.view.record import NATIVE_MARK, CompactionRecord, StaleRuns, other_view, reasoning_note
from compaction_hooks.view.references import View


class ReasoningState:
    """The stale reasoning of one conversation.

    Attributes:
        refusals: How often the provider of each model refused reasoning; None is the controller's own model.
        pending: "answer" if an answer to an earlier view than the next one may still come; "refused" if the view last sent was
            refused for its reasoning, so that all of it is stale in the next one; else empty.
        until: Reasoning before this run is stale, whatever the record tells.
        shown: The record of the view last sent, in a tuple, since that may be None; None while this process has sent none.
        told: The same of the process that wrote the newest note.
        history: The last list.
    """

    def __init__(self) -> None:
        self.refusals: Counter[str | None] = Counter()
        self.pending: Literal["", "answer", "refused"] = ""
        self.until = 0
        self.shown: tuple[str | None] | None = None
        self.told: tuple[str | None] | None = None
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

        Args:
            is_other_prefix: Whether the system prompt or the tools are others: then all reasoning was made behind others.
        """
        before, self.history = self.history, history
        first = history.runs_before_list if is_other_prefix else _first_changed_run(before, history) if before else None
        if first is not None:
            self.until = min(self.until, first)
            if newest_reasoning(history, StaleRuns(0, first)) >= first:
                self.until = history.run_count

    def stale_runs(self, history: History[M], record: CompactionRecord | None) -> StaleRuns:
        """Return the runs whose reasoning the model made behind other views than a record's."""
        if self._is_useless:
            return ALL_RUNS
        count, is_shown = history.run_count, self.shown == (_name(record),)
        if self.pending or (not is_shown and self._is_another(record, count)):
            return StaleRuns(0, count + (self.pending == "answer"))

        # What the record tells is known since its view was first sent.
        end = self.until if is_shown else max(self.until, stale_runs_of(record).end)
        return StaleRuns(0, end if end <= count + 1 else count)  # longer: the host went back since

    def runs_to_leave_out(self, history: History[M], record: CompactionRecord | None, model: str | None) -> StaleRuns:
        """Return the stale runs whose reasoning the view of a record leaves out for a model."""
        return spare_open_turn(self.stale_runs(history, record), history, model)

    def _is_another(self, record: CompactionRecord | None, run_count: int) -> bool:
        """Return whether reasoning so far was surely made behind another view than a record's, which was not sent last."""
        if self.shown is None:  # by this process; another one may have told that it sent the text, or the items
            return record is not None and self.told == (other_view(record.id),)

        if record is None or record.stale_runs is None or self.shown != (record.parent,):
            return True
        return (
            run_count > record.seen_runs
        )  # until then it takes the place of the view before without any cost of reasoning

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

    def expect_answer(self, history: History[M], record: CompactionRecord | None) -> None:
        """Record that the next answer is to this view, so that none to an earlier one can come."""
        if self.shown == (_name(record),) and self.until == history.run_count + 1:
            self.until -= 1

    def record_sent(
        self,
        history: History[M],
        record: CompactionRecord | None,
        notes: Iterable[CompactionRecord],
        first_behind: int,
        *,
        binds: bool,
    ) -> CompactionRecord | None:
        """Record that a view is sent; return a note for the store if more reasoning is stale than record and notes tell.

        Args:
            notes: The earlier notes.
            first_behind: The first run behind the notice in the view; 0 without one.
            binds: Whether the model refuses reasoning that it made after other messages.
        """
        if self.shown != (_name(record),) or self.pending == "refused":
            stale = self.stale_runs(history, record)
            self.until, self.shown, self.pending = stale.end, (_name(record),), ""
        if self.until == _UNTIL_NEXT_LIST:  # told by a process that undid a compaction: this is the next list
            self.until = history.run_count

        notes, stale = [*notes], StaleRuns(0, self.until)
        told = [note.stale_runs or NOT_STALE for note in notes]
        behind = StaleRuns(first_behind, _UNTIL_NEXT_LIST)
        if first_behind and (binds or behind in told):  # no other process knows the notice
            stale, is_told = behind, behind in told
        else:  # the note of a notice that is gone tells too much: this one replaces it
            is_told = self.until <= max([_told_by(record), *(each.end for each in told)]) and not any(
                each.first for each in told
            )

        models = {model or "" for model in self.refusals}
        if is_told and models <= {name for note in notes for name in note.binding_models}:
            return None
        is_of_use = notes or models or stale == behind or newest_reasoning(history, NOT_STALE) >= 0
        return reasoning_note(_name(record), stale, self.refusals) if is_of_use else None

    def record_undo(self) -> CompactionRecord | None:
        """Record that the view of a record's parent comes back; return a note for the process that makes the next call."""
        history = self.history
        if self._is_useless or (history is not None and newest_reasoning(history, NOT_STALE) < 0):
            return None
        self.until = _UNTIL_NEXT_LIST
        return reasoning_note(None, StaleRuns(0, _UNTIL_NEXT_LIST), self.refusals)

    def learn_from_note(self, note: CompactionRecord) -> None:
        """Learn from a note of another process."""
        stale = note.stale_runs or NOT_STALE
        for model in note.binding_models:
            self.refusals[model or None] = max(self.refusals[model or None], 2 if stale == ALL_RUNS else 1)
        self.until = max(self.until, stale.end)
        self.told = (note.parent,)

    def add_unpinned(self, runs: StaleRuns) -> None:
        """Record that answers in these runs are to another view: it had the request that was current then."""
        self.until = max(self.until, runs.end)


def _name(record: CompactionRecord | None) -> str | None:
    return record.id if record else None


def _told_by(record: CompactionRecord | None) -> int:
    """Return the end of the stale runs that another process reads from a record alone.

    Nothing, if the text was sent in place of native items: that process may send the items, and reasoning is not behind these.
    """
    is_text_of_items = record is not None and record.native is not None and not record.id.endswith(NATIVE_MARK)
    return 0 if is_text_of_items else stale_runs_of(record).end


_UNTIL_NEXT_LIST: Final = sys.maxsize - 1
"""The end of stale runs that are all in the next list."""


def _first_changed_run(before: History[Any], after: History[Any]) -> int | None:
    """Return the first run in which a list is another than before, reasoning aside; None if it only grew or lost its beginning.

    Words in front of the answer to the list of before change it, too.
    """
    known, count = before.piece_count, after.piece_count
    if before.runs_before_list != after.runs_before_list:
        return None

    if before.log is not after.log or known > count:
        pairs = zip(before.pieces(), after.pieces(), strict=False)
        first = next((at for at, (old, new) in enumerate(pairs) if not _is_same(old.message, new.message)), count)
    else:
        first = known

    if first == known and (first == count or after.piece(first).message.role == "assistant"):
        return None
    return max(after.run_of(first), after.runs_before_list) if first < count else after.run_count


def _is_same(old: Message, new: Message) -> bool:
    return old is new or (old.role == new.role and _without_reasoning(old) == _without_reasoning(new))


def _without_reasoning(message: Message) -> list[Part]:
    return [part for part in message.parts if not is_reasoning(part)]


def find_unpinned_runs(history: History[Any], view: View[Any]) -> StaleRuns:
    """Return the runs from each request that a view shortens or leaves out, to the next request, if there is reasoning in them.

    The model made the answers there behind the request in full. A record tells it of the runs before the record, which most are;
    those made after a rewind are newer.
    """
    kinds = {each.host: {item.kind for item in each.reductions.values()} for each in view.kept if each.reductions}
    shorter = [host for host, shown in kinds.items() if not shown.isdisjoint(OF_A_REQUEST)]
    requests = [history.request_before(history.first_piece(host + 1)) for host in shorter]

    last_before_cut = history.request_before(view.cut)
    if last_before_cut not in view.pinned:
        requests.append(last_before_cut)

    # A request without a later one is current still, and shown in full.
    spans = [(request, history.request_after(request)) for request in requests if request is not None]
    runs = [
        (history.run_of(request), history.run_of(later))
        for request, later in spans
        if later is not None and any(has_reasoning(piece.message) for piece in history.pieces(request, later))
    ]
    return StaleRuns(min(first for first, _ in runs), max(end for _, end in runs)) if runs else NOT_STALE
