"""The last resort: all that may be shortened is, to one line if need be, so that a view fits the window at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate, Goal, find_parts, next_record, with_reductions
from compaction_hooks.strategies.reduce_parts import LEAST_KEPT_CHARS, DropMedia, excess_tokens, shorten
from compaction_hooks.strategies.requests import shorten_oldest
from compaction_hooks.view.carried import without_carried
from compaction_hooks.view.parts import OF_TOOLS, TEXTS, PartKind
from compaction_hooks.view.snapshot import Snapshot


def last_resort(snapshot: Snapshot[M], goal: Goal[M]) -> Iterator[Candidate[M]]:
    """Yield the candidate so far, or the active view, shortened until it fits the trigger, after all strategies failed.

    First by media alone; then by tool results and arguments down to `LEAST_KEPT_CHARS`, media, carried texts, and texts of users
    and the assistant too; at last by the older messages of the current request. Never by its newest message, pinned messages,
    system messages and the summary.
    """
    lighter = _drop_media(snapshot, goal)
    if lighter is not None:
        yield lighter

    shorten_tools, shorten_texts = partial(_shorten_parts, OF_TOOLS), partial(_shorten_parts, TEXTS)
    for propose in (shorten_tools, _drop_media, _drop_carried, shorten_texts, _shorten_requests):
        candidate = propose(snapshot, goal)
        if candidate is not None:
            goal = replace(goal, start=candidate)
            yield candidate


def _drop_media(snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate so far, or the active view, with no more media than the trigger has room for."""
    return DropMedia(excess_tokens(snapshot, goal, goal.budget.trigger)).propose(snapshot, goal)


def _shorten_parts(kinds: Sequence[PartKind], snapshot: Snapshot[M], goal: Goal[M]) -> Candidate[M] | None:
    """Return the candidate so far, or the active view, with shorter parts of these kinds, but those of the current request."""
    requests = {*snapshot.older_requests}
    parts = [part for part in find_parts(snapshot, goal, kinds) if part.piece not in requests]
    return shorten(snapshot, goal, parts, goal.budget.trigger, LEAST_KEPT_CHARS)


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
