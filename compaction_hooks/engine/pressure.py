"""The word to the model before its context is cut: once for each filling, at a place where it then stays.

1. A filling is the calls under one record and one summary of the provider's own. It begins anew if a call has a list from before
   the call that told of it. `_tell_pressure` (`engine/transform.py`), in the flow of a call, is all that tells.
2. The notice is behind the last run of that call, named by the content up to there: it is in each view under that record of a list
   that has this content, until a compaction or an undo ends it. No record, no summary and no list to store has it.
3. It waits for a list that a user's message may follow. It does not follow the assistant, nor the results of a step that still
   lacks one; nor any results for Mistral, nor where it would join them, as for Bedrock, some of whose models refuse that. A view
   that it would take above the trigger goes out without it: the same list would be compacted at once.
4. No other process knows it. If one has answered since, the notice goes: `learn` sees to it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from compaction_hooks.dress import Behind
from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import Log
from compaction_hooks.messages import Message, Text
from compaction_hooks.validity import needs_merging, worsened
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.references import View
from compaction_hooks.view.snapshot import Snapshot

PRESSURE_RATIO: Final = 0.8
"""The part of the trigger above which the context is nearly full."""

NOTICE: Final = (
    "[Notice from the program, not from the user] The older messages of this conversation will soon be replaced by a summary. "
    "With your next answer, write down what you still need from them, such as decisions, exact names and numbers, and open steps; "
    "then go on."
)
"""The notice if the host gives no text of its own."""


def notice_text(notice: bool | str) -> str:
    """Return the text of `notice=`; "" for False."""
    if isinstance(notice, str):
        return notice
    return NOTICE if notice else ""


_WORDS_BEHIND_RESULTS_REFUSED: Final = re.compile(r"(mi|mini|magi|dev|code)stral|pixtral", re.IGNORECASE)
"""Models that refuse a user's message behind results (https://github.com/NousResearch/hermes-agent/issues/20154). Some models of
Bedrock refuse results and words in one message (https://github.com/langchain-ai/langchain-aws/issues/141)."""


class _Notice(NamedTuple):
    """A notice in the views of one record.

    Attributes:
        run: The run that it is behind.
        before: The digest of the runs before that one.
        said: The digests of that run's messages before the notice.
    """

    record_id: str | None
    run: int
    before: str | None
    said: tuple[str, ...]
    text: str


class _Filling(NamedTuple):
    """The filling that was told last.

    Attributes:
        under: The record, and the piece with the provider's own summary.
        run_count: The runs of the list then.
    """

    under: tuple[str | None, int | None]
    run_count: int


class Pressure:
    """What was told of a nearly full context, in one conversation."""

    def __init__(self) -> None:
        self._filling: _Filling | None = None
        self._has_told_model = False
        self._notice: _Notice | None = None
        self._found: tuple[Log[Any], int] | None = None
        """The log in which the notice was found last, and the piece before which it is."""

    def go_back(self, history: History[Any]) -> None:
        """End the filling if a call has a list from before the call that told of it."""
        if self._filling is not None and history.run_count < self._filling.run_count:
            self._filling = None

    def begin_filling(self, snapshot: Snapshot[Any]) -> bool:
        """Return whether a filling begins with this nearly full view; remember it then."""
        record, native, count = snapshot.record, snapshot.native, snapshot.history.run_count
        filling = _Filling((record.id if record else None, native.piece if native else None), count)
        known = self._filling
        if (known is not None and known.under == filling.under) or self.first_run_behind(snapshot.view):
            return False
        self._filling, self._has_told_model = filling, False
        return True

    def place(self, snapshot: Snapshot[Any], text: str) -> bool:
        """Place the notice behind the list of this view, once in a filling; return False if it was, or if it has to wait."""
        history, record = snapshot.history, snapshot.record
        if not text or self._has_told_model or not _may_place(snapshot, _write(text)):
            return False

        run = history.run_count - 1
        said = tuple(message_digest(history.piece(index).message) for index in _said_in(history, run))
        self._notice = _Notice(record.id if record else None, run, history.digest_before(run), said, text)
        self._has_told_model, self._found = True, (history.log, history.piece_count)
        return True

    def find(self, history: History[Any], record: CompactionRecord | None) -> tuple[Behind, ...]:
        """Return the notice with its place in a list, if the view of this record has it."""
        notice = self._notice
        if notice is None or notice.record_id != (record.id if record else None):
            self._found = None
            return ()
        if self._found is None or self._found[0] is not history.log:
            place = _find_place(history, notice)
            self._found = None if place is None else (history.log, place)
        if self._found is None or self._found[1] > history.piece_count:
            return ()

        place = self._found[1]
        if place < history.piece_count and history.piece(place).message == _write(notice.text):
            return ()  # the host keeps the view in place of its list
        return (Behind(place, notice.text),)

    def end(self) -> None:
        """Show the notice no more: its record has a successor, or was undone."""
        self._notice = self._found = None

    def end_sent(self, sent_runs: int) -> bool:
        """Show a notice no more that the view last sent, of so many runs, may have had; return whether there was one."""
        if self._notice is None or self._notice.run >= sent_runs:
            return False
        self.end()
        return True

    def first_run_behind(self, view: View[Any]) -> int:
        """Return the first run behind the notice in a view; 0 if the view has none."""
        notice, found = self._notice, self._found
        if notice is None or found is None or all(each.before != found[1] for each in view.inserted):
            return 0
        return notice.run + 1


def _find_place(history: History[Any], notice: _Notice) -> int | None:
    """Return the piece before which a notice is, between two host messages; None if the list has other content there."""
    if notice.run >= history.run_count or history.digest_before(notice.run) != notice.before:
        return None
    pieces = _said_in(history, notice.run)[: len(notice.said)]
    if tuple(message_digest(history.piece(index).message) for index in pieces) != notice.said:
        return None
    place = pieces[-1] + 1
    return place if place == history.first_piece(history.host_of(place)) else None


def _write(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def _said_in(history: History[Any], run: int) -> list[int]:
    """Return the pieces of a run that its digest covers."""
    return [index for index in history.run_pieces(run) if history.piece(index).side is not None]


def _may_place(snapshot: Snapshot[Any], notice: Message) -> bool:
    """Return whether the notice may be behind the list of this view (rule 3)."""
    history = snapshot.history
    if not history.piece_count or history.piece(history.piece_count - 1).side != "host":
        return False
    tokens = snapshot.calibration.predict_growth(snapshot.estimator.estimate_message_tokens(notice))
    return snapshot.tokens + tokens <= _most_tokens(snapshot) and can_follow(snapshot, notice)


def can_follow(snapshot: Snapshot[Any], message: Message, *, joins_results: bool = False) -> bool:
    """Return whether a message of the user may follow the view: its provider takes it there, and no call is without its result.

    Args:
        joins_results: Whether it may be joined with results where roles must alternate.
    """
    history, format = snapshot.history, snapshot.format
    joins_rows = snapshot.joins_rows or needs_merging(format)
    only_words = (joins_rows and not joins_results) or _WORDS_BEHIND_RESULTS_REFUSED.search(snapshot.model or "")
    last = history.piece(history.piece_count - 1) if history.piece_count else None
    if last is None or last.side is None or (only_words and last.message.role == "tool"):
        return False

    run = history.run_count - 1
    asked = history.run_calls(run - 1 if last.side == "host" else run)
    answered = {result.call_id for index in history.run_pieces(run) for result in history.piece(index).message.results}
    if not asked.keys() <= answered:
        return False

    before = snapshot.neutral_view(snapshot.view)
    faults = worsened(before, [*before, message], format.provider, model=snapshot.model)
    return all(fault.rule == "role_repeated" and joins_rows for fault in faults)


def _most_tokens(snapshot: Snapshot[Any]) -> int:
    """Return the size up to which a list that is not due stays so; a trigger of the host may let it grow to the input limit."""
    trigger = snapshot.budget.trigger if snapshot.budget is not None else 0
    return trigger if snapshot.tokens <= trigger else snapshot.input_limit
