"""Leave images and documents out of a view: a line that names them takes their place. No model is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compaction_hooks.messages import M, ToolCall
from compaction_hooks.strategies.candidate import Candidate, Goal, reduce, start_record
from compaction_hooks.tokens.media import find_media
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.reductions import Reduction
from compaction_hooks.view.removable import Removable, removable_media
from compaction_hooks.view.snapshot import Snapshot

BYTES_SLACK = 0.1
"""The part of a limit in bytes for the content that neutral messages do not have: JSON's own characters, tools, reasoning."""


@dataclass(frozen=True, slots=True)
class LeaveOutMedia:
    """Leave out the oldest media of a request that the provider refused for its bytes."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the active view without as many media as exceed `goal.limit_bytes`, or without half of them; None without any."""
        found = _find_media(snapshot, goal)
        excess = 0
        if goal.limit_bytes is not None:
            excess = view_chars(snapshot, snapshot.projection) - chars_within(goal.limit_bytes)
        if excess <= 0:  # no limit is known, or the excess is not in the messages
            excess = sum(media.chars for media in found) // 2
        return reduce(snapshot, goal, _choose_first(((media.reduction, media.chars) for media in found), excess))


def leave_out_media(snapshot: Snapshot[M], goal: Goal[M], *, excess_tokens: int) -> Candidate[M] | None:
    """Return the candidate so far without as many media as must go, the largest first, of equal ones the oldest; None without any.

    Args:
        excess_tokens: Tokens that the view must lose, by estimate before calibration.
    """
    largest_first = sorted(_find_media(snapshot, goal), key=lambda media: -media.tokens)
    return reduce(
        snapshot, goal, _choose_first(((media.reduction, media.tokens) for media in largest_first), excess_tokens)
    )


def _choose_first(found: Iterable[tuple[Reduction, int]], excess: int) -> Iterator[Reduction]:
    """Yield the first reductions that together save so much, of those that save anything."""
    for reduction, saved in found:
        if excess > 0 and saved > 0:
            yield reduction
            excess -= saved


def chars_within(limit_bytes: int) -> int:
    """Return how many characters the messages of a request may have under a limit in bytes."""
    return int(limit_bytes * (1 - BYTES_SLACK))


def view_chars(snapshot: Snapshot[M], projection: Projection[M]) -> int:
    """Return the characters that the messages of a view take in a request, without its own syntax."""
    parts = [part for message in snapshot.neutral_view(projection) for part in message.parts]
    texts = [part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "") for part in parts]
    return sum(map(len, texts)) + sum(media.data_chars for part in parts for media in find_media(part))


def _find_media(snapshot: Snapshot[M], goal: Goal[M]) -> list[Removable]:
    record = start_record(snapshot, goal)
    estimate = snapshot.estimator.estimate_message_tokens
    pinned = snapshot.user_pinned_pieces()
    first = max(record.covered_runs, snapshot.covered_runs)
    return removable_media(snapshot.history, first, estimate, record.reductions, excluded=pinned)
