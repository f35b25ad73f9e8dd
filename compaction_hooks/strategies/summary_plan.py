"""The plan of a summary: the messages before the cut, those that stay, and its room."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from compaction_hooks.digest import Facts
from compaction_hooks.digest import facts as read_facts
from compaction_hooks.files import FileOperations, file_tags, merge
from compaction_hooks.files.operations import MAX_LISTED, CallMade, digest, find_touched_files
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import History, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, Usage, Value
from compaction_hooks.native import NativeItems
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.carrying import Carrying
from compaction_hooks.strategies.cut import Cut, choose_cut
from compaction_hooks.strategies.user_messages import OlderMessages, keep_older, read_user_words
from compaction_hooks.view.head import pin_pieces
from compaction_hooks.view.parts import OF_TOOLS, RESULTS, Reduction, by_name, list_parts
from compaction_hooks.view.record import Pin
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import RECALL_TOOL, parse_summary, quote_call, render_summary

FILE_TAGS_RATIO = 0.2
"""The part of a summary's allowance that the file lists may take."""
TAG_CHARS_PER_TOKEN = 2.5
"""Characters of a path for each token: paths are dense, agents' traces measure 2.6 and more."""
HANDLES_RATIO = 0.05
"""The part of a summary's allowance that the handles of failed results and files may take."""
MOST_NAMED = 3
"""The most failed results, and the most files, whose handles a summary names."""
MOST_SEARCHED = 100
"""The most calls among which they are searched: the newest."""


class SummaryFrame(NamedTuple):
    """All that is around a summary in its message; no other value tells its form and its size.

    Attributes:
        has_recall: Whether the recall tool is named. Known before the cut, as the sentences are: the cut leaves room for them.
        sections: Sections at the end of the summary, such as the facts of the host; known before the cut too.
        carried: The texts that come back, in their tags. Before the cut they are as large as they may be, then they are those that
            come back behind this cut.
        tags: The file lists that follow the summary. Known after the cut, as the handles are: both take of its allowance.
        handles: The line that names the handles of the last failed results and files, for the recall tool; or "".
        older: The number of the user's older messages that stay behind it. Known after the cut too.
        covered: Host messages that it covers. Known with the summary, as all that follows here.
        unseen: The part of these that no summarizer read.
        continuation: Whether the message ends with a line that tells the model to go on.
        is_short: Whether its sentences are short ones.
    """

    has_recall: bool
    sections: tuple[str, ...] = ()
    carried: str = ""
    tags: str = ""
    handles: str = ""
    older: int = 0
    covered: int = 0
    unseen: int = 0
    continuation: bool = True
    is_short: bool = False

    def render(self, summary: str) -> str:
        """Return the text of the message with a summary."""
        return render_summary(
            self.add_sections(summary),
            file_tags=self.tags,
            continuation=self.continuation,
            covered=self.covered,
            unseen=self.unseen,
            has_recall=self.has_recall,
            more=(self.handles, self.carried),
            older=self.older,
            is_short=self.is_short,
        )

    def add_sections(self, summary: str) -> str:
        """Return a summary with the sections at its end, without the lines that it has already."""
        known = {*summary.splitlines()}
        added: list[str] = []
        for section in self.sections:
            heading, *lines = section.splitlines()
            lacking = [line for line in lines if line not in known]
            added += ["\n".join((heading, *lacking))] if lacking else []
        return "\n\n".join(filter(None, (summary.strip(), *added))) if added else summary

    def size(self, snapshot: Snapshot[M], summary: str = "") -> int:
        """Return the tokens of the message with a summary, before calibration."""
        return snapshot.text_tokens(self.render(summary))

    def size_after_cut(self, snapshot: Snapshot[M]) -> int:
        """Return the tokens of the texts that depend on the cut, before calibration."""
        return sum(snapshot.text_tokens(text) for text in (self.tags, self.handles) if text)


class Staying(NamedTuple):
    """What stays of the messages before a cut, by piece.

    Attributes:
        whole: Those that stay whole, but for media of the user's older messages.
        shortened: The digest of each that is shown smaller.
        older: Those of both that stay only because there is room.
    """

    whole: Sequence[int]
    shortened: Mapping[int, str]
    older: OlderMessages

    @property
    def pieces(self) -> set[int]:
        """All of them."""
        return {*self.whole, *self.shortened}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SummaryPlan(Value):
    """The messages that a summary covers, the ones that stay, and the room that it has.

    Attributes:
        cut: The first run that is kept.
        reaches_target: Whether the kept messages leave room under the target for a summary of the allowance.
        pinned: The pieces before the cut that stay whole, but for media of the user's older messages.
        tokens_above: The size of all that stays from before the cut, before calibration.
        saved_tokens: The tokens that reductions of the messages behind the cut save, before calibration.
        pins: Messages before the cut that stay, whole or shortened.
        reductions: The parts of these that are shown smaller.
        facts: The facts of the newly covered messages and of those that stay, each read once.
        hosts: The host message of each of `messages`.
        allowance: The most estimated tokens of the summary, before calibration.
        frame: All that is around it in its message.
        files: Files read and modified so far.
        digest: The actions in the newly covered messages, as plain JSON.
        host_messages: Host messages covered in all.
        ends_with_user: Whether the last message is a user's: then the summary need not tell the model to go on.
        needs_model: Whether to call a summarizer; otherwise the summary is made by rule.
        identifier_tokens: The most tokens of identifiers that are added to a summary which lacks them; None: all that is left.
    """

    cut: int
    reaches_target: bool
    pinned: tuple[int, ...]
    tokens_above: int
    saved_tokens: int
    pins: tuple[Pin, ...]
    reductions: tuple[Reduction, ...]
    hosts: tuple[int, ...]
    allowance: int
    frame: SummaryFrame
    files: FileOperations
    digest: Mapping[str, object]
    host_messages: int
    ends_with_user: bool
    needs_model: bool = True
    identifier_tokens: int | None = 0
    facts: Facts = field(compare=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The newly covered messages, oldest first."""
        return self.facts.messages

    @property
    def kept(self) -> tuple[Message, ...]:
        """The messages that stay in the view: pinned ones, then those after the cut."""
        return self.facts.kept

    @property
    def previous_summary(self) -> str | None:
        """The summary to update, or None."""
        return self.facts.previous_summary

    def host_count(self, newest: int) -> int:
        """Return how many host messages hold so many of the newest messages."""
        return len(set(self.hosts[len(self.hosts) - newest :]))


@dataclass(frozen=True, eq=False, repr=False)
class Summarized(Value):
    """The summary of a plan, all its parts merged, and its cost.

    Attributes:
        unseen: The number of the plan's newest messages that the summarizer did not read: they are summarized by rule.
        native: The provider's own summary of the same messages, or None.
        fallback_reason: The reason why it is made by rule, if the summarizer gave one; else "".
        error: The failure of the summarizer after its first part, so that the messages behind are summarized by rule; or None.
        is_by_rule: Whether all of it, or its last part, was chosen by code.
        asks_for_headings: Whether it was asked for with our headings.
        has_form: Whether it was asked for in a form that the host gave.
        is_placeholder: Whether it only shows the size that the summary may have.
    """

    text: str
    usage: Usage | None
    unseen: int = 0
    native: NativeItems | None = None
    fallback_reason: str = ""
    error: BaseException | None = None
    is_by_rule: bool = False
    asks_for_headings: bool = False
    has_form: bool = False
    is_placeholder: bool = False


def plan_summary(snapshot: Snapshot[M], goal: Goal[M]) -> SummaryPlan | None:
    """Choose the cut and gather the messages before it; None if none of them may be left out."""
    history, record = snapshot.history, snapshot.record
    covered_runs = max(history.runs_before_list, record.covered_runs if record else 0)
    carrying = Carrying(snapshot, goal)
    frame = SummaryFrame(has_recall=snapshot.has_recall, sections=goal.told.sections, carried=carrying.render_largest())
    cut = choose_cut(snapshot, goal, frame.size(snapshot))
    if cut is None:
        return None

    start, first = history.run_start(cut.run), history.run_start(covered_runs) if covered_runs else 0
    stays = _find_staying(snapshot, goal, cut, start)
    foreign, previous = _find_earlier(snapshot)
    new = enumerate(history.pieces(first, start), first)
    covered = {i: piece.message for i, piece in new if piece.message.role != "system" and i != foreign}
    readable = snapshot.readable_native
    if readable is not None:  # it covers the messages before it, an earlier summary included
        previous = readable.text
    unread = _find_unread(snapshot, covered, stays, first)
    if not unread:
        return None

    facts = _gather_facts(snapshot, unread, previous, stays.whole, start)
    calls = (facts if readable is None else read_facts(covered.values())).host_calls
    touched = find_touched_files(calls)
    files = merge(_find_known_files(snapshot), touched)
    runs = range(covered_runs, cut.run)
    frame = frame._replace(
        tags=file_tags(files, max_chars=int(cut.allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN)),
        handles=_name_parts(snapshot, calls, runs, stays.whole, room=cut.allowance * HANDLES_RATIO),
        carried=carrying.render(cut.run, stays.whole),
        older=_count_older(history, stays),
    )

    return SummaryPlan(
        cut=cut.run,
        reaches_target=cut.reaches_target,
        pinned=tuple(stays.whole),
        tokens_above=cut.place.tokens + cut.place.saved - cut.place.recent_tokens + stays.older.tokens,
        saved_tokens=cut.place.saved,
        pins=_pins(snapshot, stays),
        reductions=(*cut.place.short.reductions, *cut.place.reductions, *stays.older.reductions),
        facts=facts,
        hosts=tuple(history.piece(i).host for i in unread),
        allowance=cut.allowance - frame.size_after_cut(snapshot),
        frame=frame,
        files=files,
        digest=digest([*covered.values()], calls, touched.modified, _reduced_results(snapshot)),
        host_messages=_count_host_messages(snapshot, first, start),
        ends_with_user=history.piece(history.piece_count - 1).message.role == "user",
    )


def _find_staying(snapshot: Snapshot[M], goal: Goal[M], cut: Cut, start: int) -> Staying:
    """Return what stays of the messages before piece `start`, which is the first behind the cut."""
    needed, short = snapshot.pinned_pieces(start, cut.place.requests), cut.place.short
    older = keep_older(snapshot, goal, start, {*needed, *short.digests}, cut.left)
    return Staying(sorted({*needed, *older.whole}), {**short.digests, **older.digests}, older)


def _find_unread(snapshot: Snapshot[M], covered: dict[int, Message], stays: Staying, first: int) -> dict[int, Message]:
    """Return what no summary has yet of the covered messages, by piece; none if all of them stay."""
    if covered.keys() <= {*stays.whole}:
        return {}
    readable = snapshot.readable_native
    if readable is not None:
        return _read_after(readable.piece, covered)
    return _add_unpinned(snapshot, covered, stays, first)


def _add_unpinned(snapshot: Snapshot[M], covered: dict[int, Message], stays: Staying, first: int) -> dict[int, Message]:
    """Return what no summary has yet, by piece: the covered messages, the pins that the active view shows and the new one does not,
    and the questions that short replies among them answer.
    """
    history, pins = snapshot.history, snapshot.record.pins if snapshot.record else ()
    # The summary before has the middle of a message that was shortened then.
    known = {*pin_pieces(history, [pin for pin in pins if pin.shown_digest], first)}.intersection(stays.shortened)
    unread = ({*pin_pieces(history, pins, first)} - {*stays.whole} - known) | covered.keys()
    words = read_user_words(history, max(unread) + 1)
    asked = {at for i in unread.intersection(words) for at in words[i].questions}
    return {i: history.piece(i).message for i in sorted(unread | asked)}


def _count_host_messages(snapshot: Snapshot[M], first: int, start: int) -> int:
    """Return how many host messages are covered if those from piece `first` to `start` (excluded) are too."""
    history, record = snapshot.history, snapshot.record
    if record is None or not history.runs_before_list:
        return history.piece(start).host

    # Of a stored view only those after the earlier cut: that summary, and the messages next to it, are counted already.
    return history.piece(start).host - history.piece(first).host + record.compacted_message_count


def _gather_facts(
    snapshot: Snapshot[M], unread: Mapping[int, Message], previous: str | None, pinned: Sequence[int], start: int
) -> Facts:
    """Return what code reads in the messages of a plan.

    Args:
        unread: By piece, the messages that no summary has yet.
        previous: The summary before.
        start: The first piece that stays.
    """
    history = snapshot.history
    kept = (history.piece(i).message for i in (*pinned, *range(start, history.piece_count)))
    return read_facts(
        unread.values(), previous, tuple([message for message in kept if message.role != "system"]), is_stored=True
    )


def _find_known_files(snapshot: Snapshot[M]) -> FileOperations:
    """Return the files of the active record."""
    record = snapshot.record
    return FileOperations(read=record.read_files, modified=record.modified_files) if record else FileOperations()


def _name_parts(
    snapshot: Snapshot[M], calls: Sequence[CallMade], runs: range, pinned: Sequence[int], *, room: float
) -> str:
    """Return a line with the handles of the last failed results and the last files of these runs, as many as `room` tokens hold.

    Of a file that was read its text is named, of one that was written the arguments of the call. Without the recall tool: "".
    """
    if not snapshot.has_recall:
        return ""

    parts = {
        id(part.content): part
        for part in list_parts(snapshot.history, runs, OF_TOOLS, has_recall=True)
        if part.piece not in pinned
    }

    failed: dict[Hashable, str] = {}
    files: dict[Hashable, str] = {}
    for made in (made for made in reversed(calls[-MOST_SEARCHED:]) if made.call.name != RECALL_TOOL):
        touched = FileOperations() if made.has_failed else find_touched_files([made])
        paths, source = touched.modified + touched.read, quote_call(made.call)
        part = parts.get(id(made.call if touched.modified else made.result))
        names = failed if made.has_failed else files
        if part and part.handles and (paths or made.has_failed) and len(names) < MOST_NAMED:
            names.setdefault(paths or source, f"{part.handles.find(part)} {source}{', failed' * made.has_failed}")

    named = [*failed.values(), *files.values()]
    while named:
        line = f"[{RECALL_TOOL} shows again: {'; '.join(named)}]"
        if snapshot.text_tokens(line) <= room:
            return line
        named.pop()
    return ""


def _read_after(native: int, covered: Mapping[int, Message]) -> dict[int, Message]:
    """Return the covered messages after the provider's own summary in piece `native`, by piece; its own message's rest included."""
    messages = {index: message for index, message in covered.items() if index >= native}
    message = messages[native]
    place = max(place for place, part in enumerate(message.parts) if isinstance(part, NativeSummary))
    messages[native] = replace(message, parts=message.parts[place + 1 :])
    return {index: message for index, message in messages.items() if message.parts}


def _count_older(history: History[M], stays: Staying) -> int:
    """Return how many of the user's messages that stay are not newer than the older ones: with those that the host pinned."""
    last = max(stays.older.pieces, default=-1)
    return sum(index <= last and history.piece(index).message.role == "user" for index in stays.pieces)


def _pins(snapshot: Snapshot[M], stays: Staying) -> tuple[Pin, ...]:
    """Return the pins of what stays. A pin of an earlier record keeps its run: a trimmed list no longer shows it."""
    history, of_user = snapshot.history, snapshot.user_steps(snapshot.history.piece_count)
    earlier = {digest: pin for pin in snapshot.record.pins for digest in pin.digests} if snapshot.record else {}
    optional = stays.older.pieces
    pins: list[Pin] = []

    for index in sorted(stays.pieces):
        if is_only_reasoning(history.piece(index).message):
            continue  # it has no digest of its own, and stays with its answer

        digest = message_digest(history.piece(index).message)
        old = earlier.get(digest) if history.piece(index).side is None else None
        run = old.run if old else max(history.run_of(index), 0)
        if old is not None and digest == old.shown_digest:  # the host stored the shortened message
            pins.append(old._replace(is_optional=index in optional))
        else:
            pins.append(Pin(run, digest, index in of_user, stays.shortened.get(index, ""), index in optional))
    return tuple(pins)


def _find_earlier(snapshot: Snapshot[M]) -> tuple[int | None, str | None]:
    """Return the piece at the head of the list that is a summary without a record here, and the summary to update, or None."""
    history, record = snapshot.history, snapshot.record
    summary = record.summary if record else ""
    is_ours = history.runs_before_list > 0 or (record is not None and record.rendered != "")
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
    reduced = by_name(item for item in snapshot.view.reductions if item.kind == "result")
    runs = sorted(run for _, run, *_ in reduced)[-MAX_LISTED:]
    parts = list_parts(snapshot.history, {*runs}, RESULTS)
    return [(part.tool, reduced[part.name].apply(part.text)) for part in parts if part.name in reduced]
