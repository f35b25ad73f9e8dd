"""The plan of a summary: the messages that it covers, the ones that stay, and the room that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compaction_hooks.files import FileOperations, merge
from compaction_hooks.files.lists import file_tags
from compaction_hooks.files.operations import MAX_LISTED, digest, find_touched_files
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import History, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, Usage
from compaction_hooks.native import NativeItems
from compaction_hooks.strategies.candidate import Goal, list_whole
from compaction_hooks.strategies.cut_point import find_cut
from compaction_hooks.summary.extractive.outline import Item
from compaction_hooks.summary.facts import CoveredFacts
from compaction_hooks.text.refusals import age_refusals
from compaction_hooks.tokens.budget import SUMMARY_LARGE_STEP_RATIO, Budget
from compaction_hooks.view.head import pin_pieces
from compaction_hooks.view.parts import RESULTS, by_name, list_parts
from compaction_hooks.view.record import Pin
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.summary_message import parse_summary, render_summary

FILE_TAGS_RATIO = 0.2
"""The part of a summary's allowance that the file lists may take."""
MINIMUM_SUMMARY_TOKENS = 160
"""The least allowance of a summary: a shorter one is no better than a marker."""
RENDERING_RATIO = 0.25
"""The part by which a summary may grow when it is escaped, put next to the file lists, and sized as a whole, by samples."""
CRAMPED_RATIO = 0.3
"""A summary's share of the room in the window that is left by a system prompt larger than the threshold."""
TAG_CHARS_PER_TOKEN = 2.5
"""Characters of a path for each token: paths are dense, agents' traces measure 2.6 and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlan:
    """The messages that a summary covers, the ones that stay, and the room that it has.

    Attributes:
        cut: The first run that is kept.
        reaches_target: Whether the kept messages leave room under the target for a summary of the allowance.
        pins: Messages before the cut that stay.
        messages: The newly covered messages, oldest first.
        kept: The messages that stay in the view: pinned ones, then those after the cut.
        facts: The facts of both, each read once.
        hosts: The host message of each of `messages`.
        previous_summary: The summary to update, with the words of refusals that it may carry on; or None.
        allowance: The most estimated tokens of the summary, before calibration.
        tags: The file lists that follow it.
        files: Files read and modified so far.
        digest: The actions in the newly covered messages, as plain JSON.
        host_messages: Host messages covered in all.
        ends_with_user: Whether the last message is a user's: then the summary need not tell the model to go on.
        needs_model: Whether to call a summarizer; otherwise the summary is made by rule.
        ledger_tokens: The most tokens of identifiers that a model is asked to keep, and that are added if its summary lacks them.
        find_identifiers: Returns the identifiers in question, the best first, found once.
    """

    cut: int
    reaches_target: bool
    pins: tuple[Pin, ...]
    messages: tuple[Message, ...]
    kept: tuple[Message, ...]
    hosts: tuple[int, ...]
    previous_summary: str | None
    allowance: int
    tags: str
    files: FileOperations
    digest: Mapping[str, object]
    host_messages: int
    ends_with_user: bool
    needs_model: bool = True
    ledger_tokens: int = 0
    facts: CoveredFacts = field(compare=False)
    find_identifiers: Callable[[], Sequence[Item]] = field(default=tuple, compare=False)

    def host_count(self, newest: int) -> int:
        """Return how many host messages hold so many of the newest messages."""
        return len(set(self.hosts[len(self.hosts) - newest :]))


@dataclass(frozen=True, slots=True)
class Summarized:
    """The summary of a plan, all its parts merged, and its cost.

    Attributes:
        unseen: The number of the plan's newest messages that the summarizer did not read: they are summarized by rule.
        native: The provider's own summary of the same messages, or None.
        fallback_reason: The reason why it is made by rule, if the summarizer gave one; else "".
        is_by_rule: Whether all of it, or its last part, was chosen by code.
        has_our_headings: Whether it was asked for with our headings.
    """

    text: str
    usage: Usage | None
    unseen: int = 0
    native: NativeItems | None = None
    fallback_reason: str = ""
    is_by_rule: bool = False
    has_our_headings: bool = False


def plan_summary(snapshot: Snapshot[M], goal: Goal[M]) -> SummaryPlan | None:
    """Choose the cut and gather the messages before it; None if none of them may be left out."""
    allowance = int(goal.budget.summary / snapshot.ratio)
    wrapper = snapshot.text_tokens(
        render_summary("", file_tags="", continuation=True, covered=0, unseen=0, has_recall=snapshot.has_recall)
    )
    room = snapshot.room(goal.budget.target) - int(allowance * (1 + RENDERING_RATIO)) - wrapper
    keep = int(goal.keep_tokens / snapshot.ratio)

    def fits(run: int) -> bool:
        start = snapshot.history.run_start(run)
        return tokens_above(snapshot, start) + snapshot.history.tokens(start) <= room

    cut = find_cut(snapshot.history, after=snapshot.covered_runs, keep_tokens=keep, fits=fits)
    if cut is None:
        return None
    spare = _spare_tokens(snapshot, goal.budget, cut, allowance + wrapper) - wrapper
    start = snapshot.history.run_start(cut)
    kept = snapshot.history.tokens(start)
    left = snapshot.room(goal.budget.target) - tokens_above(snapshot, start) - kept - wrapper
    is_large_step = snapshot.history.run_count - cut <= 2 and kept > goal.budget.keep / snapshot.ratio
    if is_large_step and left > 0:
        spare = min(spare, int(left * SUMMARY_LARGE_STEP_RATIO))
    allowance = min(allowance, max(spare, MINIMUM_SUMMARY_TOKENS))
    return _build_plan(snapshot, goal, cut, allowance, reaches_target=fits(cut))


def tokens_above(snapshot: Snapshot[M], start: int) -> int:
    """Return the estimate of the system messages, pins and the provider's sealed summary that stay from before piece `start`."""
    carried = () if snapshot.carried_piece is None else (snapshot.carried_piece,)
    pieces = (*snapshot.history.systems(start), *snapshot.pinned_pieces(start), *carried)
    return sum(snapshot.history.piece(i).tokens for i in pieces if i < start)


def _spare_tokens(snapshot: Snapshot[M], budget: Budget, cut: int, enough: int) -> int:
    """Return the room for a summary next to the parts that cannot shrink: up to the trigger, but no more than `enough`.

    If those parts alone exceed the trigger, it is a share of the room up to the window: the next steps need the other tokens.
    """
    start = snapshot.history.run_start(cut)
    kept = tokens_above(snapshot, start) + snapshot.history.tokens(start)
    if snapshot.room(budget.trigger) - kept >= enough:
        return enough  # there is room without shrinking any part, so they need not be searched
    rigid = kept - sum(part.tokens for part in list_whole(snapshot, cut))
    spare = snapshot.room(budget.trigger) - rigid
    if spare >= MINIMUM_SUMMARY_TOKENS:
        return spare
    return int((snapshot.room(budget.window) - rigid) * CRAMPED_RATIO)


def _build_plan(
    snapshot: Snapshot[M], goal: Goal[M], cut: int, allowance: int, *, reaches_target: bool
) -> SummaryPlan | None:
    history = snapshot.history
    start = history.run_start(cut)
    pinned = snapshot.pinned_pieces(start)
    foreign = _foreign_summary(snapshot)
    covered_runs = max(history.base, snapshot.record.covered_runs if snapshot.record else 0)
    first = history.run_start(covered_runs) if covered_runs else 0
    new = enumerate(history.pieces(first, start), first)
    covered = [i for i, piece in new if piece.message.role != "system" and i != foreign]
    if set(pinned).issuperset(covered):
        return None
    messages = unread = [history.piece(i).message for i in covered]
    previous = _previous_summary(snapshot, foreign)
    readable = snapshot.readable_native
    if readable is not None:  # it covers the messages before it, an earlier summary included
        after = _read_after(snapshot, readable.piece, covered)
        previous, covered, unread = readable.text, [*after], [*after.values()]
        if not covered:
            return None
    released = _find_released(snapshot, pinned, first) if readable is None else []
    covered = released + covered
    newly = (*(history.piece(i).message for i in released), *unread)
    kept = _kept_messages(snapshot, pinned, start)
    previous = age_refusals(previous) if previous else None
    facts = CoveredFacts(newly, previous, kept)
    calls = facts.calls if readable is None else CoveredFacts(tuple(messages), None, ()).calls
    touched = find_touched_files(calls)
    record = snapshot.record
    known = FileOperations(read=record.read_files, modified=record.modified_files) if record else FileOperations()
    files = merge(merge(known, goal.host_files), touched)
    # Of a stored view only those after the earlier cut: that summary, and the messages next to it, are counted already.
    uncounted = history.piece(first).host - record.compacted_message_count if record and history.base else 0
    tags = file_tags(files, max_chars=int(allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN))
    return SummaryPlan(
        cut=cut,
        reaches_target=reaches_target,
        pins=_pins(snapshot, pinned),
        messages=newly,
        kept=kept,
        facts=facts,
        hosts=tuple(history.piece(i).host for i in covered),
        previous_summary=previous,
        allowance=allowance - (snapshot.text_tokens(tags) if tags else 0),
        tags=tags,
        files=files,
        digest=digest(messages, calls, touched.modified, _reduced_results(snapshot)),
        host_messages=history.piece(start).host - uncounted,
        ends_with_user=history.piece(history.piece_count - 1).message.role == "user",
    )


def _read_after(snapshot: Snapshot[M], native: int, covered: Iterable[int]) -> dict[int, Message]:
    """Return the covered messages after the provider's own summary in piece `native`, by piece; its own message's rest included."""
    found = {index: snapshot.history.piece(index).message for index in covered if index >= native}
    message = found[native]
    place = max(place for place, part in enumerate(message.parts) if isinstance(part, NativeSummary))
    found[native] = replace(message, parts=message.parts[place + 1 :])
    return {index: message for index, message in found.items() if message.parts}


def _find_released(snapshot: Snapshot[M], pinned: Sequence[int], first: int) -> list[int]:
    """Return the pieces before `first` that the active view still shows and the new one does not: no summary has them yet."""
    pins = snapshot.record.pins if snapshot.record else ()
    return [index for index in pin_pieces(snapshot.history, pins, first) if index not in pinned]


def _kept_messages(snapshot: Snapshot[M], pinned: Iterable[int], start: int) -> tuple[Message, ...]:
    kept = (*pinned, *range(start, snapshot.history.piece_count))
    messages = (snapshot.history.piece(i).message for i in kept)
    return tuple(message for message in messages if message.role != "system")


def _pins(snapshot: Snapshot[M], pieces: Iterable[int]) -> tuple[Pin, ...]:
    """Return the pins of these pieces. A pin of an earlier record keeps its run: a trimmed list no longer shows it."""
    history = snapshot.history
    earlier = {pin.digest: pin for pin in snapshot.record.pins} if snapshot.record else {}
    pins: list[Pin] = []
    for index in pieces:
        if is_only_reasoning(history.piece(index).message):
            continue  # it has no digest of its own, and stays with its answer
        digest = message_digest(history.piece(index).message)
        old = earlier.get(digest) if history.piece(index).side is None else None
        run = old.run if old else max(history.run_of(index), 0)
        is_users = index != history.request or digest in snapshot.user_pins
        pins.append(Pin(run=run, digest=digest, is_users=is_users))
    return tuple(pins)


def _foreign_summary(snapshot: Snapshot[M]) -> int | None:
    """Return the piece at the head of a list that is a summary without a record here, or None."""
    if snapshot.history.base or (snapshot.record is not None and snapshot.record.rendered):
        return None
    return find_head_summary(snapshot.history)


def find_head_summary(history: History[M]) -> int | None:
    """Return the piece at the head of a list if it is a summary, of any system; else None."""
    first = next(index for index in range(history.piece_count) if history.piece(index).message.role != "system")
    message = history.piece(first).message
    is_summary = message.role == "user" and (message.is_summary or parse_summary(message.text) is not None)
    return first if is_summary else None


def _previous_summary(snapshot: Snapshot[M], foreign: int | None) -> str | None:
    if snapshot.record is not None and snapshot.record.summary:
        return snapshot.record.summary
    if foreign is None:
        return None
    text = snapshot.history.piece(foreign).message.text
    return parse_summary(text) or text


def _reduced_results(snapshot: Snapshot[M]) -> list[tuple[str, str]]:
    """Return the tool of the newest results that the active view shows smaller, and the text in their place."""
    active = by_name(item for item in snapshot.reductions if item.kind == "result")
    runs = sorted(run for _, run, _ in active if run >= snapshot.covered_runs)[-MAX_LISTED:]
    parts = list_parts(snapshot.history, {*runs}, RESULTS)
    return [(part.tool, active[part.name].apply(part.text)) for part in parts if part.name in active]
