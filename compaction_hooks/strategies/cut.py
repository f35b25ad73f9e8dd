"""The cut: the first run that is kept word for word, what else stays of the current request, and the room of the summary."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import M
from compaction_hooks.strategies.border import extend
from compaction_hooks.strategies.candidate import Goal, list_whole
from compaction_hooks.strategies.requests import SHORTENED_RATIO, ShortRequests, shorten_requests
from compaction_hooks.strategies.user_messages import RESERVED_RATIO, size_older
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO, SUMMARY_LARGE_STEP_RATIO
from compaction_hooks.view.parts import Reduction
from compaction_hooks.view.snapshot import Snapshot

logger = logging.getLogger("compaction_hooks")

TURN_SLACK_RATIO = 0.25
"""The part of the kept tokens that may be lost so that the kept messages begin with a user's message, as in KDCube."""
LARGE_STEP_RUNS = 8
"""At most so many runs above those of the summary before, the steps since then were large too: `SUMMARY_LARGE_STEP_RATIO` holds."""
MINIMUM_SUMMARY_TOKENS = 160
"""The least allowance of a summary: a shorter one is no better than a marker."""
RENDERING_RATIO = 0.25
"""The part by which a summary may grow when it is escaped, put next to the file lists, and sized as a whole, by samples."""
CRAMPED_RATIO = 0.3
"""A summary's share of the room in the window that is left by a system prompt larger than the threshold."""


class Place(NamedTuple):
    """The place of a cut, and what stays of the messages.

    Attributes:
        run: The first run that is kept.
        requests: The older messages of the current request before that run that stay whole, by piece.
        short: Those that do not all fit whole.
        recent_tokens: The size of the messages from that run on in full, before calibration.
        tokens: The size of all that stays, before calibration.
        reductions: The parts of the messages from that run on that are shown smaller.
        saved: The tokens that these save, before calibration.
    """

    run: int
    requests: Sequence[int]
    short: ShortRequests
    recent_tokens: int
    tokens: int
    reductions: Sequence[Reduction] = ()
    saved: int = 0


class Cut(NamedTuple):
    """The place where a summary ends, and the room that it has.

    Attributes:
        allowance: The most estimated tokens of the summary with its file lists, before calibration.
        left: The tokens that the target leaves empty next to all that stays and a summary of the full allowance, before
            calibration; negative if that does not reach the target.
    """

    place: Place
    allowance: int
    left: int

    @property
    def run(self) -> int:
        """The first run that is kept."""
        return self.place.run

    @property
    def reaches_target(self) -> bool:
        """Whether all that stays leaves room under the target for a summary of the full allowance."""
        return self.left >= 0


def choose_cut(snapshot: Snapshot[M], goal: Goal[M], frame_tokens: int) -> Cut | None:
    """Choose the first run to keep, and the room of the summary next to it; None if nothing can be summarized.

    The summary has its full allowance if that fits under the trigger next to the parts that cannot shrink. If those alone exceed
    the trigger, it has a share of the room up to the window: the next steps need the other tokens.

    Args:
        frame_tokens: The size of the summary's message without the summary, before calibration.
    """
    history, budget = snapshot.history, goal.budget
    full = int(budget.summary / snapshot.ratio)
    target, trigger = snapshot.room(budget.target) - frame_tokens, snapshot.room(budget.trigger)
    taken = frame_tokens + int(full * (1 + RENDERING_RATIO))
    grown = int(budget.trigger / (1 + MINIMUM_GROWTH_RATIO))  # a larger view would be compacted again at once
    room, most = (snapshot.room(size) - taken for size in (budget.target, grown))
    place = _choose_place(snapshot, goal, room, most, full)
    if place is None:
        return None
    run = place.run

    spare = trigger - place.tokens
    if spare < full + frame_tokens:  # otherwise there is room without shrinking any part
        spare += sum(part.tokens for part in list_whole(snapshot, run))
        if spare < MINIMUM_SUMMARY_TOKENS:
            spare = int((spare + snapshot.room(budget.window) - trigger) * CRAMPED_RATIO)

    left = target - place.tokens
    is_large_step = history.run_count - run <= 2 and place.recent_tokens > budget.keep / snapshot.ratio
    share = int(left * SUMMARY_LARGE_STEP_RATIO)
    if is_large_step and share >= MINIMUM_SUMMARY_TOKENS:
        follows_another = (
            history.runs_before_list < snapshot.covered_runs and run - snapshot.covered_runs <= LARGE_STEP_RUNS
        )
        spare = min(spare, (share if follows_another else left) + frame_tokens)
    allowance = min(full, max(spare - frame_tokens, MINIMUM_SUMMARY_TOKENS))
    logger.debug("the cut is before run %d of %d: at most %d tokens of summary", run, history.run_count, allowance)
    return Cut(place, allowance, room - place.tokens)


def _choose_place(snapshot: Snapshot[M], goal: Goal[M], room: int, most: int, most_border: int) -> Place | None:
    """Choose the first run to keep, and what of the current request stays from before it.

    The request goes before all steps but the last one: all of it if it fits, else its newest messages, and the older ones
    shortened.

    Args:
        room: The tokens that all may take, before calibration.
        most: The tokens that the request and the last step may take.
        most_border: The tokens that steps before the recent messages may take, with those that the recent ones leave.
    """
    history, older, kept = snapshot.history, snapshot.older_requests, snapshot.kept_tokens()
    keep_tokens = int(goal.keep_tokens / snapshot.ratio)

    def stays(run: int, requests: Sequence[int]) -> int:
        start = history.run_start(run)
        return snapshot.tokens_above(start, requests) + kept(start)

    end = history.run_count if goal.end is None else goal.end + 1  # the cut may be right before that run
    runs = range(max(snapshot.covered_runs, history.runs_before_list) + 1, end)
    last = next((run for run in reversed(runs) if _may_begin(history, run)), None) if older else None
    unfit = bisect_left(range(len(older)), True, key=lambda n: last is not None and stays(last, older[n:]) <= most)
    others, whole = older[:unfit], older[unfit:]
    words, most_words = size_older(snapshot, goal, room), int(room * RESERVED_RATIO)
    reserve = max(min(sum(history.piece(piece).tokens for piece in others), int(room * SHORTENED_RATIO)), 0)

    run = find_cut(
        history,
        runs=runs,
        keep_tokens=keep_tokens,
        size=kept,
        fits=lambda run: stays(run, whole) <= room - reserve - min(words(run), most_words),
    )
    if run is None:
        return None

    tokens = stays(run, whole)
    reductions: Sequence[Reduction] = ()
    left = min(room - reserve - words(run) - tokens, keep_tokens + most_border - kept(history.run_start(run)))
    if goal.reason == "threshold" and left > 0:
        before = range(run - 1, runs.start - 1, -1)
        earlier = (each for each in before if _may_begin(history, each) and not history.starts_turn(each - 1))
        run, reductions, more = extend(snapshot, goal, run, earlier, lambda run: stays(run, whole), left)
        tokens += more
    start = history.run_start(run)
    pinned = snapshot.pinned_pieces(start)
    hidden = [piece for piece in others if piece < start and piece not in pinned]
    short = shorten_requests(snapshot, hidden, max(room - tokens, reserve if tokens <= most else 0))
    requests = [piece for piece in (*short.whole, *whole) if piece < start]
    saved = stays(run, whole) - tokens
    return Place(run, requests, short, kept(start), tokens + short.tokens, reductions, saved)


def find_cut(
    history: History[M], *, runs: range, keep_tokens: int, size: Callable[[int], int], fits: Callable[[int], bool]
) -> int | None:
    """Choose the first run to keep.

    Walk from the newest message back until `keep_tokens` is reached (inclusive), then forward to the next run that may begin a
    context: the speaker changes and no tool call is open (so never a tool result), and it is no answer cut short. Then go forward
    to the first run with which the view `fits`, and prefer a run that a user opens if it loses few of the kept tokens. If none
    fits, keep the last step alone.

    Args:
        runs: The runs before which the cut may be: behind those that earlier records cover.
        keep_tokens: Tokens to keep, before calibration.
        size: Returns the tokens of the messages from a piece on.
        fits: Whether the view that keeps everything from this run on is small enough; once true, true for later runs.

    Returns:
        The run; None if nothing can be summarized: none of `runs` may begin a context.
    """
    newest = next((piece for piece in reversed(range(history.piece_count + 1)) if size(piece) >= keep_tokens), 0)
    first = bisect_left(runs, newest, key=history.run_start)

    # Search only the kept messages: the covered ones may be many times more.
    candidates = [run for run in runs[first:] if _may_begin(history, run)]
    candidates = candidates or [*islice((run for run in reversed(runs[:first]) if _may_begin(history, run)), 1)]
    if not candidates:
        return None

    fitting = next((run for run in candidates if fits(run)), candidates[-1])
    logger.debug(
        "of %d places with at most %d tokens after them, %d leave too little room: the messages from run %d on may stay",
        len(candidates),
        keep_tokens,
        candidates.index(fitting),
        fitting,
    )

    least = size(history.run_start(fitting)) * (1 - TURN_SLACK_RATIO)
    nearby = (run for run in candidates if run >= fitting and size(history.run_start(run)) >= least)
    return next((run for run in nearby if history.starts_turn(run)), fitting)


def _may_begin(history: History[M], run: int) -> bool:
    """Return whether the kept messages may begin with a run: not with an answer that was aborted or failed."""
    stop_reason = history.piece(history.run_start(run)).message.stop_reason
    return history.is_boundary(run) and stop_reason not in ("aborted", "error")


def turns_tokens(snapshot: Snapshot[M], turns: int) -> int:
    """Return the tokens, before calibration, from the user's last turns on; 0 for no turns."""
    if not turns:
        return 0

    history = snapshot.history
    roles = [piece.message.role for piece in history.pieces()]
    # Several messages in a row are one turn.
    begins = [index for index, role in enumerate(roles) if role == "user" and roles[index - 1 : index] != ["user"]]
    if not begins:
        return 0

    run = history.run_of(begins[-turns:][0])
    while run > history.runs_before_list and not history.is_boundary(run):  # the user spoke right after a tool's result
        run -= 1
    return snapshot.kept_tokens()(history.run_start(run))
