"""The plan of a summary: the messages that it covers, the ones that stay, and the room that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compaction_hooks.files import FileOperations, file_tags, merge
from compaction_hooks.files.operations import MAX_LISTED, digest, find_touched_files
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import History, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, Usage
from compaction_hooks.native import NativeItems
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.cut_point import choose_cut
from compaction_hooks.summary.extractive.outline import Item
from compaction_hooks.summary.extractive.steps import age_refusals
from compaction_hooks.summary.facts import CoveredFacts
from compaction_hooks.view.head import pin_pieces
from compaction_hooks.view.parts import RESULTS, by_name, list_parts
from compaction_hooks.view.record import Pin
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.summary_message import parse_summary

FILE_TAGS_RATIO = 0.2
"""The part of a summary's allowance that the file lists may take."""
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
    cut = choose_cut(snapshot, goal)
    if cut is None:
        return None

    history, record = snapshot.history, snapshot.record
    covered_runs = max(history.base, record.covered_runs if record else 0)
    start, first = history.run_start(cut.run), history.run_start(covered_runs) if covered_runs else 0
    pinned = snapshot.pinned_pieces(start)
    foreign, previous = _find_earlier(snapshot)
    new = enumerate(history.pieces(first, start), first)
    covered = {i: piece.message for i, piece in new if piece.message.role != "system" and i != foreign}
    if covered.keys() <= {*pinned}:
        return None

    readable = snapshot.readable_native
    if readable is not None:  # it covers the messages before it, an earlier summary included
        unread, previous = _read_after(readable.piece, covered), readable.text
    else:
        # The pins that the active view still shows and the new one does not: no summary has them yet.
        shown = pin_pieces(history, record.pins if record else (), first)
        unread = {i: history.piece(i).message for i in shown if i not in pinned} | covered
    if not unread:
        return None

    previous = age_refusals(previous) if previous else None
    facts = CoveredFacts(tuple(unread.values()), previous, _kept_messages(snapshot, pinned, start))
    calls = facts.calls if readable is None else CoveredFacts(tuple(covered.values()), None, ()).calls
    touched = find_touched_files(calls)
    known = FileOperations(read=record.read_files, modified=record.modified_files) if record else FileOperations()
    files = merge(merge(known, goal.host_files), touched)
    tags = file_tags(files, max_chars=int(cut.allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN))
    # Of a stored view only those after the earlier cut: that summary, and the messages next to it, are counted already.
    uncounted = history.piece(first).host - record.compacted_message_count if record and history.base else 0
    return SummaryPlan(
        cut=cut.run,
        reaches_target=cut.reaches_target,
        pins=_pins(snapshot, pinned),
        messages=facts.messages,
        kept=facts.kept,
        facts=facts,
        hosts=tuple(history.piece(i).host for i in unread),
        previous_summary=previous,
        allowance=cut.allowance - (snapshot.text_tokens(tags) if tags else 0),
        tags=tags,
        files=files,
        digest=digest([*covered.values()], calls, touched.modified, _reduced_results(snapshot)),
        host_messages=history.piece(start).host - uncounted,
        ends_with_user=history.piece(history.piece_count - 1).message.role == "user",
    )


def _read_after(native: int, covered: Mapping[int, Message]) -> dict[int, Message]:
    """Return the covered messages after the provider's own summary in piece `native`, by piece; its own message's rest included."""
    found = {index: message for index, message in covered.items() if index >= native}
    message = found[native]
    place = max(place for place, part in enumerate(message.parts) if isinstance(part, NativeSummary))
    found[native] = replace(message, parts=message.parts[place + 1 :])
    return {index: message for index, message in found.items() if message.parts}


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


def _find_earlier(snapshot: Snapshot[M]) -> tuple[int | None, str | None]:
    """Return the piece at the head of the list that is a summary without a record here, and the summary to update, or None."""
    history, record = snapshot.history, snapshot.record
    summary = record.summary if record else ""
    is_ours = history.base > 0 or (record is not None and record.rendered != "")
    foreign = None if is_ours else find_head_summary(history)
    if foreign is not None and not summary:
        text = history.piece(foreign).message.text
        summary = parse_summary(text) or text
    return foreign, summary or None


def find_head_summary(history: History[M]) -> int | None:
    """Return the piece at the head of a list if it is a summary, of any system; else None."""
    first = next(index for index in range(history.piece_count) if history.piece(index).message.role != "system")
    message = history.piece(first).message
    is_summary = message.role == "user" and (message.is_summary or parse_summary(message.text) is not None)
    return first if is_summary else None


def _reduced_results(snapshot: Snapshot[M]) -> list[tuple[str, str]]:
    """Return the tool of the newest results that the active view shows smaller, and the text in their place."""
    active = by_name(item for item in snapshot.reductions if item.kind == "result")
    runs = sorted(run for _, run, _ in active if run >= snapshot.covered_runs)[-MAX_LISTED:]
    parts = list_parts(snapshot.history, {*runs}, RESULTS)
    return [(part.tool, active[part.name].apply(part.text)) for part in parts if part.name in active]
