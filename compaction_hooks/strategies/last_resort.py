"""The last resort: all that may be shortened is, to one line if need be, so that a view fits the window at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate, Goal, find_parts, next_record, with_reductions
from compaction_hooks.strategies.reduce_parts import LEAST_KEPT_CHARS, DropMedia, excess_tokens, shorten
from compaction_hooks.strategies.requests import shorten_oldest
from compaction_hooks.view.carried import without_carried
from compaction_hooks.view.parts import MEDIA, OF_A_REQUEST, OF_TOOLS, TEXTS, PartKind
from compaction_hooks.view.snapshot import Snapshot

CARRIED: Final[tuple[PartKind, ...]] = ()
"""The texts that a summary carries: they are parts of no message of the host."""


def last_resort(snapshot: Snapshot[M], goal: Goal[M]) -> Iterator[Candidate[M]]:
    """Yield the candidate so far, or the active view, shortened until it fits the trigger, after all strategies failed.

    First by media alone; then by tool results and arguments down to `LEAST_KEPT_CHARS`, media, carried texts, and texts of users
    and the assistant too; at last by the older messages of the current request. Never by its newest message, pinned messages,
    system messages and the summary.
    """
    limit, requests = goal.budget.trigger, {*snapshot.older_requests}
    lighter = DropMedia(excess_tokens(snapshot, goal, limit)).propose(snapshot, goal)
    if lighter is not None:
        yield lighter

    for kinds in (OF_TOOLS, MEDIA, CARRIED, TEXTS, OF_A_REQUEST):
        if kinds is CARRIED:
            candidate = _drop_carried(snapshot, goal)
        elif kinds is MEDIA:
            candidate = DropMedia(excess_tokens(snapshot, goal, limit)).propose(snapshot, goal)
        elif kinds is OF_A_REQUEST:
            candidate = _shorten_requests(snapshot, goal)
        else:
            parts = [part for part in find_parts(snapshot, goal, kinds) if part.piece not in requests]
            candidate = shorten(snapshot, goal, parts, limit, LEAST_KEPT_CHARS)
        if candidate is not None:
            goal = replace(goal, start=candidate)
            yield candidate


def _drop_carried(snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate so far, or the active view, without the texts that its summary carries; None if it carries none."""
    record = goal.start.record if goal.start else next_record(snapshot, goal)
    rendered = without_carried(record.rendered)
    if rendered == record.rendered:
        return None
    return Candidate(snapshot=snapshot, record=with_reductions(replace(record, rendered=rendered), ()))


def _shorten_requests(snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate so far with its request shortened to the trigger or, if that is out of reach, to the window."""
    candidate = shorten_oldest(snapshot, goal, goal.budget.trigger)
    if candidate is None or candidate.tokens <= goal.budget.trigger:
        return candidate

    larger = shorten_oldest(snapshot, goal, goal.budget.window)
    return larger if larger is not None and larger.tokens <= goal.budget.window else candidate
