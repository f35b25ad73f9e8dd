"""The cut: the first run that is kept word for word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice

from compaction_hooks.history import History
from compaction_hooks.messages import M

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
    newest = bisect_left(range(1, history.piece_count + 1), True, key=lambda piece: history.tokens(piece) < keep_tokens)
    first = bisect_left(runs, newest, key=history.run_start)
    # No more is looked at than is kept, however much lies before it.
    candidates = [run for run in runs[first:] if _may_begin(history, run)]
    candidates = candidates or [*islice((run for run in reversed(runs[:first]) if _may_begin(history, run)), 1)]
    if not candidates:
        return None
    fitting = next((run for run in candidates if fits(run)), candidates[-1])
    least = history.tokens(history.run_start(fitting)) * (1 - TURN_SLACK_RATIO)
    nearby = (run for run in candidates if run >= fitting and history.tokens(history.run_start(run)) >= least)
    return next((run for run in nearby if history.starts_turn(run)), fitting)


def _may_begin(history: History[M], run: int) -> bool:
    """Whether the kept messages may begin with a run: not with an answer that was aborted or failed, which is half of one."""
    stop_reason = history.piece(history.run_start(run)).message.stop_reason
    return history.is_boundary(run) and stop_reason not in ("aborted", "error")


def turns_tokens(history: History[M], turns: int) -> int:
    """Return the tokens, before calibration, of the user's last turns and all that follows them; 0 for no turns."""
    if not turns:
        return 0
    roles = [piece.message.role for piece in history.pieces()]
    # Several messages in a row are one turn.
    begins = [index for index, role in enumerate(roles) if role == "user" and roles[index - 1 : index] != ["user"]]
    if not begins:
        return 0
    run = history.run_of(begins[-turns:][0])
    while run > history.base and not history.is_boundary(run):  # the user spoke right after a tool's result
        run -= 1
    return history.tokens(history.run_start(run))
