"""The cut: the first run that is kept word for word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from compaction_hooks.history import History
from compaction_hooks.messages import M, StopReason

TURN_SLACK_RATIO = 0.25
"""The part of the kept tokens that may be given up so that the kept messages begin with a user's words. KDCube does so too."""


def find_cut(history: History[M], *, after: int, keep_tokens: int, fits: Callable[[int], bool]) -> int | None:
    """Choose the first run to keep.

    Walks from the newest message back until `keep_tokens` is reached (inclusive), then forward to the next run that may
    begin a context: one where the speaker changes and no call is open, so never a tool result, and that is not an answer cut
    short. From there on forward to the first run with which the view `fits`; a run that a user opens is preferred when it
    costs little of what is kept. When none fits, the last step is kept alone.

    Args:
        after: Runs that earlier records cover; the cut lies above them.
        keep_tokens: Tokens to keep, before calibration.
        fits: Whether the view that keeps everything from this run on is small enough; once true, true for later runs.

    Returns:
        The run; None when nothing could be summarised: no run above `after` may begin a context.
    """
    runs = range(max(after, history.base) + 1, history.run_count)
    first = bisect_left(runs, _walk_back(history, keep_tokens), key=history.run_start)
    # No more is looked at than is kept, however much lies before it.
    candidates = [run for run in runs[first:] if _may_begin(history, run)]
    if not candidates:
        candidates = list(islice((run for run in reversed(runs[:first]) if _may_begin(history, run)), 1))
    if not candidates:
        return None
    fitting = next((run for run in candidates if fits(run)), candidates[-1])
    return _turn_nearby(history, fitting, candidates)


def _may_begin(history: History[M], run: int) -> bool:
    """Whether the kept messages may begin with a run: not with an answer that was aborted or failed, which is half of one."""
    return history.is_boundary(run) and history.piece(history.run_start(run)).message.stop_reason not in _PARTIAL


_PARTIAL: Final[tuple[StopReason | None, ...]] = ("aborted", "error")
"""How partial answers ended."""


def turns_tokens(history: History[M], turns: int) -> int:
    """Return the tokens, before calibration, of the user's last turns and all that follows them; 0 for no turns."""
    first = None
    for index in islice(_turns_newest_first(history), turns):
        first = index
    if first is None:
        return 0
    run = history.run_of(first)
    while run > history.base and not history.is_boundary(run):  # the user spoke right after a tool's result
        run -= 1
    return history.tokens(history.run_start(run))


def _turns_newest_first(history: History[M]) -> Iterator[int]:
    """Yield the pieces with which the user's turns begin. Several messages in a row are one turn."""
    later = None
    for index in range(history.piece_count - 1, -1, -1):
        role = history.piece(index).message.role
        if later is not None and role != "user":
            yield later
        later = index if role == "user" else None
    if later is not None:
        yield later


def _walk_back(history: History[M], keep_tokens: int) -> int:
    """The newest piece from which on at least `keep_tokens` are kept; 0 when the whole history is smaller."""
    low, high = 0, history.piece_count
    while low < high:
        middle = (low + high + 1) // 2
        if history.tokens(middle) >= keep_tokens:
            low = middle
        else:
            high = middle - 1
    return low


def _turn_nearby(history: History[M], cut: int, candidates: list[int]) -> int:
    least = history.tokens(history.run_start(cut)) * (1 - TURN_SLACK_RATIO)
    for run in candidates:
        if run >= cut and history.tokens(history.run_start(run)) < least:
            return cut
        if run >= cut and history.starts_turn(run):
            return run
    return cut
