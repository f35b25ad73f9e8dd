"""Which rungs, in which order, until the view fits: pure functions from a situation to a plan.

The rungs: clear old tool results; summarise up to a cut; shorten what is oversized; drop oldest whole steps, marked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compaction_hooks.files import (
    MAX_LISTED,
    FileOperations,
    HiddenBlock,
    calls_made,
    digest,
    file_tags,
    merge,
    touched_files,
)
from compaction_hooks.history.digests import message_names
from compaction_hooks.messages import M, Message, Usage
from compaction_hooks.strategies.cut_point import find_cut
from compaction_hooks.values import dataclass
from compaction_hooks.view.projection import whole_step
from compaction_hooks.view.record import Pin
from compaction_hooks.view.reductions import Reducible, reducible_parts, results_to_clear
from compaction_hooks.view.snapshot import Situation
from compaction_hooks.view.summary_message import parse_summary, render_summary

FILE_TAGS_RATIO = 0.2
"""Of a summary's allowance, the most the file lists may take."""
MINIMUM_SUMMARY_TOKENS = 160
"""A summary is allowed this much however little is left: below, it says nothing that a marker would not."""
RENDERING_RATIO = 0.25
"""What a summary may grow by when it is escaped and put beside the file lists, and is then sized as a whole, by samples."""
CRAMPED_RATIO = 0.3
"""Of what a system prompt larger than the trigger leaves of the window, a summary's share."""
TAG_CHARS_PER_TOKEN = 2.5
"""Characters of a path for each token: paths are dense, agents' traces measure 2.6 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlan:
    """What is to be summarised and what stays.

    Attributes:
        cut: The first run that is kept.
        reaches_target: Whether what is kept leaves a summary of the allowance its room under the target.
        pins: Messages before it that stay.
        history: What the history summary is made of: everything newly covered, without a split turn's first part.
        prefix: The first part of the split turn, when it gets a summary of its own.
        hosts: The host message of each of these, history first.
        previous_summary: The summary to update, or None.
        allowance: The most the summary may hold, in estimated tokens, before calibration.
        tags: The file lists that follow it.
        files: Files read and modified so far.
        digest: What the newly covered part did, as plain JSON.
        host_messages: Host messages covered in all.
    """

    cut: int
    reaches_target: bool
    pins: tuple[Pin, ...]
    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    hosts: tuple[int, ...]
    previous_summary: str | None
    allowance: int
    tags: str
    files: FileOperations
    digest: Mapping[str, object]
    host_messages: int
    has_continuation: bool

    def host_count(self, newest: int) -> int:
        """Return how many host messages hold so many of the newest messages."""
        return len(set(self.hosts[len(self.hosts) - newest :]))


@dataclass(frozen=True, slots=True)
class Summarized:
    """The summary of a plan, all its parts merged, and what it cost.

    Attributes:
        unseen: How many of the plan's messages, the newest ones, the summariser was not shown: they are summarised by rule.
    """

    text: str
    usage: Usage | None
    unseen: int = 0


def plan_clearing(now: Situation[M]) -> tuple[Reducible, ...]:
    """Return the tool results to clear; empty when that gains too little to be worth a new prefix."""
    if not now.settings.clear_tool_results:
        return ()
    estimate = now.estimator.estimate_message_tokens
    parts = reducible_parts(
        now.history,
        now.covered_runs,
        estimate,
        now.reductions,
        results_only=True,
        rewritten=now.projection.rewritten,
    )
    chosen = results_to_clear(
        [part for part in parts if not now.is_pinned_by_user(part.piece)] if now.user_pins else parts,
        protect_tokens=int(now.budget.protect_results / now.gauge.ratio),
        rules=now.settings.tool_rules,
        last_run=now.history.run_count - 1,
    )
    if sum(part.tokens for part in chosen) * now.gauge.ratio < now.budget.minimum_clear:
        return ()
    return tuple(chosen)


def plan_summary(now: Situation[M]) -> SummaryPlan | None:
    """Choose the cut and gather what is to be summarised; None when nothing that may be left out lies before any cut."""
    allowance = int(now.budget.summary / now.gauge.ratio)
    wrapper = now.text_tokens(render_summary("", file_tags="", continuation=True, covered=0, unseen=0))
    room = now.gauge.room(now.budget.target) - int(allowance * (1 + RENDERING_RATIO)) - wrapper
    keep = int(now.keep / now.gauge.ratio)

    def fits(run: int) -> bool:
        start = now.history.run_start(run)
        return _above(now, start) + now.history.tokens(start) <= room

    cut = find_cut(now.history, after=now.covered_runs, keep_tokens=keep, fits=fits)
    if cut is None:
        return None
    spare = _spare(now, cut, allowance + wrapper) - wrapper
    return _gathered(now, cut, min(allowance, max(spare, MINIMUM_SUMMARY_TOKENS)), reaches_target=fits(cut))


def _above(now: Situation[M], start: int) -> int:
    """The estimate of the system messages and pins that stay from before piece `start`."""
    return sum(now.history.piece(i).tokens for i in (*now.history.systems(start), *pinned_pieces(now, start)))


def _spare(now: Situation[M], cut: int, enough: int) -> int:
    """What a summary may take beside the parts that cannot shrink: all that is left under the trigger, or what is `enough`.

    Where those parts alone pass the trigger, it is a share of what is left under the window: the next steps need the rest.
    """
    start = now.history.run_start(cut)
    kept = _above(now, start) + now.history.tokens(start)
    if now.gauge.room(now.budget.trigger) - kept >= enough:
        return enough  # beside all that is kept as it stands: what of it can shrink need not be known
    parts = reducible_parts(now.history, cut, now.estimator.estimate_message_tokens)
    rigid = kept - sum(part.tokens for part in parts)
    spare = now.gauge.room(now.budget.trigger) - rigid
    if spare >= MINIMUM_SUMMARY_TOKENS:
        return spare
    return int((now.gauge.room(now.budget.window) - rigid) * CRAMPED_RATIO)


def _gathered(now: Situation[M], cut: int, allowance: int, *, reaches_target: bool) -> SummaryPlan | None:
    history = now.history
    start = history.run_start(cut)
    pinned = pinned_pieces(now, start)
    foreign = _foreign_summary(now)
    covered = [i for i in _newly_covered(now, start) if i != foreign]
    if set(pinned).issuperset(covered):
        return None
    previous = _previous_summary(now, foreign)
    split = _split_turn(now, cut, covered)
    if previous is not None and covered[0] >= split:
        # The turn began before: an update carries the earlier summary on, a summary of this part alone would lose it.
        split = history.piece_count
    messages = [history.piece(i).message for i in covered]
    calls = calls_made(messages)
    touched = touched_files(calls)
    files = merge(merge(_known_files(now), now.host_files), touched)
    tags = file_tags(files, max_chars=int(allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN))
    return SummaryPlan(
        cut=cut,
        reaches_target=reaches_target,
        pins=_pins(now, pinned),
        history=tuple(messages[: bisect_left(covered, split)]),
        prefix=tuple(messages[bisect_left(covered, split) :]),
        hosts=tuple(history.piece(i).host for i in covered),
        previous_summary=previous,
        allowance=allowance - (now.text_tokens(tags) if tags else 0),
        tags=tags,
        files=files,
        digest=digest(messages, hidden=_hidden(now), calls=calls, operations=touched).to_dict(),
        host_messages=history.piece(start).host
        + (now.record.compacted_message_count if now.record and history.base else 0),
        has_continuation=now.settings.add_continuation
        and history.piece(history.piece_count - 1).message.role != "user",
    )


def _newly_covered(now: Situation[M], start: int) -> list[int]:
    first = now.history.run_start(now.covered_runs) if now.covered_runs else 0
    return [i for i, piece in enumerate(now.history.pieces(first, start), first) if piece.message.role != "system"]


def _split_turn(now: Situation[M], cut: int, covered: Sequence[int]) -> int:
    """The piece from which on the covered part gets a summary of its own; the piece count when the cut splits no turn."""
    history = now.history
    none = history.piece_count
    if history.starts_turn(cut):
        return none
    turn = next((run for run in range(cut - 1, now.covered_runs - 1, -1) if history.starts_turn(run)), None)
    if turn is None:
        return none
    start = history.run_start(turn)
    hosts = {history.piece(i).host for i in covered if i >= start}
    return start if len(hosts) >= now.settings.split_turn_min_prefix else none


def pinned_pieces(now: Situation[M], start: int) -> list[int]:
    """The pieces before `start` that stay: the current request, and whatever the host pinned, with its calls and results."""
    history = now.history
    request = history.request
    chosen = {request} if request is not None and request < start else set[int]()
    if now.user_pins:
        for index in range(start):
            if now.is_pinned_by_user(index):
                chosen.update(whole_step(history, index))
    return sorted(i for i in chosen if i < start and history.piece(i).message.role != "system")


def _pins(now: Situation[M], pieces: Iterable[int]) -> tuple[Pin, ...]:
    """The pins of these pieces. A pin that an earlier record made keeps its run: a trimmed list no longer shows it."""
    history = now.history
    earlier = {pin.digest: pin for pin in now.record.pins} if now.record else {}
    pins: list[Pin] = []
    for index in pieces:
        names = message_names(history.piece(index).message)
        found = (earlier[name] for name in names if name in earlier)
        old = next(found, None) if history.piece(index).side is None else None
        run = old.run if old else max(history.run_of(index), 0)
        is_users = index != history.request or any(name in now.user_pins for name in names)
        pins.append(Pin(run=run, digest=names[0], is_users=is_users))
    return tuple(pins)


def _foreign_summary(now: Situation[M]) -> int | None:
    """The piece at the head of a list that is a summary nobody here has a record of, or None."""
    if now.history.base or (now.record is not None and now.record.rendered):
        return None
    count = now.history.piece_count
    first = next((i for i in range(count) if now.history.piece(i).message.role != "system"), None)
    if first is None:
        return None
    message = now.history.piece(first).message
    is_summary = message.role == "user" and (message.is_summary or parse_summary(message.text) is not None)
    return first if is_summary else None


def _previous_summary(now: Situation[M], foreign: int | None) -> str | None:
    if now.record is not None and now.record.summary:
        return now.record.summary
    if foreign is None:
        return None
    text = now.history.piece(foreign).message.text
    return parse_summary(text) or text


def _known_files(now: Situation[M]) -> FileOperations:
    if now.record is None:
        return FileOperations()
    return FileOperations(read=now.record.read_files, modified=now.record.modified_files)


def _hidden(now: Situation[M]) -> list[HiddenBlock]:
    """The newest results that the view in force shows smaller, for the digest."""
    in_force = {(item.run, item.ordinal): item for item in now.reductions if item.kind == "result"}
    if not in_force:
        return []
    first = sorted(run for run, _ in in_force)[-MAX_LISTED:][0]
    parts = reducible_parts(now.history, max(now.covered_runs, first - 1), lambda _: 0, results_only=True)
    hidden = [(part, in_force.get((part.run, part.ordinal))) for part in parts]
    return [HiddenBlock(tool=part.tool, replacement=by.apply(part.text)) for part, by in hidden if by]


def dropped_marker(plan: SummaryPlan) -> str:
    """Return the line that says what was dropped without a summary: how many messages, by role (Opal's `truncate`)."""
    messages = [*plan.history, *plan.prefix]
    roles = Counter(message.role for message in messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"[Compacted {len(messages)} messages: {counts}]"
