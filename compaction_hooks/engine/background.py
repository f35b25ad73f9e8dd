"""The summary that is written while the conversation goes on, before the threshold wants it.

1. It is begun when the threshold is as many calls away as a summary takes, and not before it can cover as much as a compaction at
   the threshold would. It is asked for the list as it is then; nothing of it is active, stored or told.
2. One is under way at most, and none is begun twice under one summary: after one that failed, the call asks as without it.
3. A call above the threshold waits for the one under way, and makes it active if it is still true (`find`): what it covers is there
   word for word, behind the same summary. Its record then follows the active one, whose reductions of later messages it takes over.
4. After an undo, a compaction by hand, a newer summary or a new pin it is not adopted; it is paid for nevertheless.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any, Final

from compaction_hooks.history.digests import message_digest
from compaction_hooks.runtime.effects import Flow, Instant, Now, RunningCompaction
from compaction_hooks.strategies.candidate import with_reductions
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.view_of import is_true

FIRST_SECONDS: Final = 30.0
"""The time that a summary takes, in seconds, before one was timed."""
MOST_CALLS: Final = 32
"""The newest calls by which the growth of a conversation is told: with fewer, its leaps are not among them."""
MORE_CALLS: Final = 2
"""Calls that are added to those that a summary takes: the one that begins it, and the one that takes it."""
MOST_LATER_RATIO: Final = 0.5
"""The most of the recent messages that may still be to come when it is begun: what the writer sees of them tells what is done."""


class Draft:
    """A summary under way in the background, or ready.

    Attributes:
        running: Ends when it is ready, has failed or was stopped; calls above the threshold wait for that.
        under: The text in place of the covered messages then, and the runs that it covers.
        pins: The digests of the messages that the host had pinned then.
        is_asked: Whether a summarizer was asked.
        record: The record, when it is ready.
        fallback_reason: Why a part of it, or all of it, was made by rule; "" if it was not.
    """

    def __init__(self, session_id: str, under: tuple[str, int], pins: frozenset[str]) -> None:
        self.running = RunningCompaction(session_id)
        self.under, self.pins = under, pins
        self.fallback_reason = ""
        self.is_asked = False
        self.record: CompactionRecord | None = None


class Background:
    """The summaries that one conversation has written in the background.

    Attributes:
        is_on: Whether the host asked for them.
        fallback_reason: That of the draft last taken.
    """

    def __init__(self, *, is_on: bool = False) -> None:
        self.is_on = is_on
        self.fallback_reason = ""
        self._draft: Draft | None = None
        self._begun_under: tuple[str, int] | None = None
        self._seconds = FIRST_SECONDS
        self._last: tuple[tuple[str, int], int] | None = None
        self._calls = deque[tuple[float, int]](maxlen=MOST_CALLS)

    def note_call(self, snapshot: Snapshot[Any]) -> None:
        """Note the time since the call before, and by how many tokens the view grew."""
        under, seconds = _summary_of(snapshot), snapshot.seconds_since_last_call
        if self._last is not None and self._last[0] == under and seconds is not None:
            self._calls.append((seconds, max(0, snapshot.tokens - self._last[1])))
        self._last = under, snapshot.tokens

    def may_begin(self, snapshot: Snapshot[Any]) -> bool:
        """Whether one may be begun: the host wants it, none was under this summary, and none is under way."""
        is_first = self._begun_under != _summary_of(snapshot) and self.running is None
        return self.is_on and bool(self._calls) and is_first

    def look_ahead(self, snapshot: Snapshot[Any]) -> Snapshot[Any]:
        """Return a snapshot of the size that the view may have when a summary begun now is ready: conversations grow in leaps."""
        seconds = max(median(seconds for seconds, _ in self._calls), 0.001)
        calls = math.ceil(self._seconds / seconds) + MORE_CALLS
        grown = [tokens for _, tokens in self._calls]
        runs = [sum(grown[start : start + calls]) for start in range(max(1, len(grown) - calls + 1))]
        more = max(runs) if len(grown) >= calls else math.ceil(runs[0] * calls / len(grown))
        return snapshot._replace(tokens=snapshot.tokens + more, most_tokens=snapshot.most_tokens + more)

    def begin(self, session_id: str, snapshot: Snapshot[Any]) -> Draft:
        """Return a new draft under the summary of this view."""
        self._begun_under = _summary_of(snapshot)
        self._draft = Draft(session_id, self._begun_under, frozenset(snapshot.user_pins))
        return self._draft

    def write(self, draft: Draft, ask: Callable[[Draft, Instant], Flow[CompactionRecord | None]]) -> Flow[None]:
        """Ask for a draft's record."""
        start: Instant = yield Now()
        draft.record = yield from ask(draft, start)
        if not draft.is_asked and self._draft is draft:
            self._draft = self._begun_under = None
        stop: Instant = yield Now()
        if draft.record is not None:
            self._seconds = stop.seconds_since(start)

    @property
    def running(self) -> RunningCompaction | None:
        """What is under way, or None."""
        running = self._draft.running if self._draft is not None else None
        return running if running is not None and not running.done.done() else None

    def running_under(self, snapshot: Snapshot[Any]) -> RunningCompaction | None:
        """Return what a call above the threshold waits for: not what its view has overtaken."""
        return self.running if self._draft is not None and self._draft.under == _summary_of(snapshot) else None

    def find(self, snapshot: Snapshot[Any]) -> CompactionRecord | None:
        """Return the record of a draft that is ready, as it follows the active one (rule 3), or None; it is no draft any more."""
        draft, active, history = self._draft, snapshot.record, snapshot.history
        record = draft.record if draft is not None else None
        if draft is None or record is None:
            return None

        self._draft, self.fallback_reason = None, draft.fallback_reason
        if draft.under != _summary_of(snapshot) or not is_true(history, record) or _is_pinned_since(snapshot, draft):
            return None
        followed = replace(
            record,
            parent=active.id if active else None,
            seen_runs=history.run_count,
            tokens_before=snapshot.tokens,
            compaction_count=(active.compaction_count if active else 0) + 1,
        )
        later = (item for item in snapshot.reductions if item.run >= record.covered_runs)
        return with_reductions(followed, later)

    def discard(self) -> None:
        """Drop the draft: what is under way goes on, and nobody takes it."""
        self._draft = None


def _is_pinned_since(snapshot: Snapshot[Any], draft: Draft) -> bool:
    """Whether the host has since pinned a message that the draft's record covers, or may show smaller."""
    history, record = snapshot.history, draft.record
    assert record is not None
    start = history.run_start(record.covered_runs)
    new = snapshot.user_pins.keys() - draft.pins
    pinned = [index for index in snapshot.user_pinned_pieces() if message_digest(history.piece(index).message) in new]
    smaller = {item.run for item in record.reductions}
    return any(index < start or history.run_of(index) in smaller for index in pinned)


def _summary_of(snapshot: Snapshot[Any]) -> tuple[str, int]:
    record = snapshot.record
    return (record.rendered, record.covered_runs) if record is not None else ("", 0)
