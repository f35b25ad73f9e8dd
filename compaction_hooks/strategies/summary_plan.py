"""The plan of a summary: the cut, which is the first run that is kept word for word, the messages before it, and its room."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from compaction_hooks.files import FileOperations, file_tags, merge
from compaction_hooks.files.operations import MAX_LISTED, CallMade, digest, find_touched_files
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import History, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, Usage, Value
from compaction_hooks.native import NativeItems
from compaction_hooks.strategies.candidate import Goal, list_whole
from compaction_hooks.strategies.requests import SHORTENED_RATIO, ShortRequests, shorten_requests
from compaction_hooks.summary.extractive.findings import OF_PROVIDER, Findings
from compaction_hooks.summary.extractive.outline import Section
from compaction_hooks.summary.extractive.steps import age_refusals
from compaction_hooks.tokens.budget import MINIMUM_GROWTH_RATIO, SUMMARY_LARGE_STEP_RATIO
from compaction_hooks.view.head import pin_pieces
from compaction_hooks.view.parts import OF_TOOLS, RESULTS, Reduction, by_name, list_parts
from compaction_hooks.view.record import Pin
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import RECALL_TOOL, parse_summary, quote_call, render_summary

logger = logging.getLogger("compaction_hooks")

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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SummaryPlan(Value):
    """The messages that a summary covers, the ones that stay, and the room that it has.

    Attributes:
        cut: The first run that is kept.
        reaches_target: Whether the kept messages leave room under the target for a summary of the allowance.
        pinned: The pieces before the cut that stay whole.
        pins: Messages before the cut that stay, whole or shortened.
        reductions: The parts of these that are shown smaller.
        messages: The newly covered messages, oldest first.
        kept: The messages that stay in the view: pinned ones, then those after the cut.
        facts: The facts of both, each read once.
        hosts: The host message of each of `messages`.
        previous_summary: The summary to update, with the words of refusals that it may carry on; or None.
        allowance: The most estimated tokens of the summary, before calibration.
        tags: The file lists that follow it.
        handles: The line that names the handles of the last failed results and files, for the recall tool; or "".
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
    pins: tuple[Pin, ...]
    reductions: tuple[Reduction, ...]
    messages: tuple[Message, ...]
    kept: tuple[Message, ...]
    hosts: tuple[int, ...]
    previous_summary: str | None
    allowance: int
    tags: str
    handles: str
    files: FileOperations
    digest: Mapping[str, object]
    host_messages: int
    ends_with_user: bool
    needs_model: bool = True
    identifier_tokens: int | None = 0
    facts: Findings = field(compare=False)

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
        is_by_rule: Whether all of it, or its last part, was chosen by code.
        has_our_headings: Whether it was asked for with our headings, or has some of them.
        has_form: Whether it was asked for in a form that the host gave.
    """

    text: str
    usage: Usage | None
    unseen: int = 0
    native: NativeItems | None = None
    fallback_reason: str = ""
    is_by_rule: bool = False
    has_our_headings: bool = False
    has_form: bool = False


def plan_summary(snapshot: Snapshot[M], goal: Goal[M]) -> SummaryPlan | None:
    """Choose the cut and gather the messages before it; None if none of them may be left out."""
    cut = choose_cut(snapshot, goal)
    if cut is None:
        return None

    history, record = snapshot.history, snapshot.record
    covered_runs = max(history.runs_before_list, record.covered_runs if record else 0)
    start, first = history.run_start(cut.run), history.run_start(covered_runs) if covered_runs else 0
    pinned = snapshot.pinned_pieces(start, cut.place.requests)
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
        pieces = pin_pieces(history, record.pins if record else (), first)
        unread = {i: history.piece(i).message for i in pieces if i not in pinned} | covered
    if not unread:
        return None

    facts = _gather_facts(snapshot, unread, previous, pinned, start)
    covered_facts = facts if readable is None else Findings(tuple(covered.values()), None, ())
    calls = [made for made in covered_facts.calls if made.call.id != OF_PROVIDER]
    touched = find_touched_files(calls)
    known = FileOperations(read=record.read_files, modified=record.modified_files) if record else FileOperations()
    files = merge(merge(known, goal.host_files), touched)
    tags = file_tags(files, max_chars=int(cut.allowance * FILE_TAGS_RATIO * TAG_CHARS_PER_TOKEN))
    handles = _name_parts(snapshot, calls, range(covered_runs, cut.run), pinned, room=cut.allowance * HANDLES_RATIO)

    return SummaryPlan(
        cut=cut.run,
        reaches_target=cut.reaches_target,
        pinned=tuple(pinned),
        pins=_pins(snapshot, pinned, cut.place.short.digests),
        reductions=cut.place.short.reductions,
        messages=facts.messages,
        kept=facts.kept,
        facts=facts,
        hosts=tuple(history.piece(i).host for i in unread),
        previous_summary=facts.previous_summary,
        allowance=cut.allowance - sum(snapshot.text_tokens(text) for text in (tags, handles) if text),
        tags=tags,
        handles=handles,
        files=files,
        digest=digest([*covered.values()], calls, touched.modified, _reduced_results(snapshot)),
        host_messages=_count_host_messages(snapshot, first, start),
        ends_with_user=history.piece(history.piece_count - 1).message.role == "user",
    )


def _count_host_messages(snapshot: Snapshot[M], first: int, start: int) -> int:
    """Return how many host messages are covered if those from piece `first` to `start` (excluded) are too."""
    history, record = snapshot.history, snapshot.record
    if record is None or not history.runs_before_list:
        return history.piece(start).host

    # Of a stored view only those after the earlier cut: that summary, and the messages next to it, are counted already.
    return history.piece(start).host - history.piece(first).host + record.compacted_message_count


def _gather_facts(
    snapshot: Snapshot[M], unread: Mapping[int, Message], previous: str | None, pinned: Sequence[int], start: int
) -> Findings:
    """Return what code reads in the messages of a plan.

    Args:
        unread: By piece, the messages that no summary has yet.
        previous: The summary before.
        start: The first piece that stays.
    """
    history = snapshot.history
    kept = (history.piece(i).message for i in (*pinned, *range(start, history.piece_count)))
    return Findings(
        tuple(unread.values()),
        age_refusals(previous) if previous else None,
        tuple([message for message in kept if message.role != "system"]),
        requests_under=(Section.ASKED,),  # goals in a summary by a model are in its own words
    )


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


def _pins(snapshot: Snapshot[M], pieces: Iterable[int], shortened: Mapping[int, str]) -> tuple[Pin, ...]:
    """Return the pins of these pieces. A pin of an earlier record keeps its run: a trimmed list no longer shows it.

    Args:
        shortened: By piece, the digest of a shortened message that stays too.
    """
    history, requests = snapshot.history, snapshot.history.requests
    earlier = {digest: pin for pin in snapshot.record.pins for digest in pin.digests} if snapshot.record else {}
    pins: list[Pin] = []

    for index in sorted({*pieces, *shortened}):
        if is_only_reasoning(history.piece(index).message):
            continue  # it has no digest of its own, and stays with its answer

        digest = message_digest(history.piece(index).message)
        old = earlier.get(digest) if history.piece(index).side is None else None
        run = old.run if old else max(history.run_of(index), 0)
        is_users = index not in requests or digest in snapshot.user_pins
        if old is not None and digest == old.shown_digest:  # the host stored the shortened message
            pins.append(old)
        else:
            pins.append(Pin(run=run, digest=digest, is_users=is_users, shown_digest=shortened.get(index, "")))
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
    reduced = by_name(item for item in snapshot.projection.reductions if item.kind == "result")
    runs = sorted(run for _, run, _ in reduced)[-MAX_LISTED:]
    parts = list_parts(snapshot.history, {*runs}, RESULTS)
    return [(part.tool, reduced[part.name].apply(part.text)) for part in parts if part.name in reduced]


class Place(NamedTuple):
    """The place of a cut, and what stays of the messages.

    Attributes:
        run: The first run that is kept.
        requests: The older messages of the current request before that run that stay whole, by piece.
        short: Those that do not all fit whole.
        recent_tokens: The size of the messages from that run on, before calibration.
        tokens: The size of all that stays, before calibration.
    """

    run: int
    requests: Sequence[int]
    short: ShortRequests
    recent_tokens: int
    tokens: int


class Cut(NamedTuple):
    """The place where a summary ends, and the room that it has.

    Attributes:
        allowance: The most estimated tokens of the summary with its file lists, before calibration.
        reaches_target: Whether the kept messages leave room under the target for a summary of the full allowance.
    """

    place: Place
    allowance: int
    reaches_target: bool

    @property
    def run(self) -> int:
        """The first run that is kept."""
        return self.place.run


def choose_cut(snapshot: Snapshot[M], goal: Goal[M]) -> Cut | None:
    """Choose the first run to keep, and the room of the summary next to it; None if nothing can be summarized.

    The summary has its full allowance if that fits under the trigger next to the parts that cannot shrink. If those alone exceed
    the trigger, it has a share of the room up to the window: the next steps need the other tokens.
    """
    history, budget = snapshot.history, goal.budget
    full = int(budget.summary / snapshot.ratio)
    wrapper = snapshot.text_tokens(
        render_summary("", file_tags="", continuation=True, covered=0, unseen=0, has_recall=snapshot.has_recall)
    )
    target, trigger = snapshot.room(budget.target) - wrapper, snapshot.room(budget.trigger)
    taken = wrapper + int(full * (1 + RENDERING_RATIO))
    grown = int(budget.trigger / (1 + MINIMUM_GROWTH_RATIO))  # a larger view would be compacted again at once
    room, most = (snapshot.room(size) - taken for size in (budget.target, grown))
    place = _choose_place(snapshot, int(goal.keep_tokens / snapshot.ratio), room, most)
    if place is None:
        return None
    run = place.run

    spare = trigger - place.tokens
    if spare < full + wrapper:  # otherwise there is room without shrinking any part
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
        spare = min(spare, (share if follows_another else left) + wrapper)
    allowance = min(full, max(spare - wrapper, MINIMUM_SUMMARY_TOKENS))
    logger.debug("the cut is before run %d of %d: at most %d tokens of summary", run, history.run_count, allowance)
    return Cut(place, allowance, place.tokens <= room)


def _choose_place(snapshot: Snapshot[M], keep_tokens: int, room: int, most: int) -> Place | None:
    """Choose the first run to keep, and what of the current request stays from before it.

    The request goes before all steps but the last one: all of it if it fits, else its newest messages, and the older ones
    shortened.

    Args:
        keep_tokens: Tokens to keep, before calibration.
        room: The tokens that all may take, before calibration.
        most: The tokens that the request and the last step may take.
    """
    history, older, kept = snapshot.history, snapshot.older_requests, snapshot.kept_tokens()

    def stays(run: int, requests: Sequence[int]) -> int:
        start = history.run_start(run)
        return snapshot.tokens_above(start, requests) + kept(start)

    runs = range(max(snapshot.covered_runs, history.runs_before_list) + 1, history.run_count)
    last = next((run for run in reversed(runs) if _may_begin(history, run)), None) if older else None
    unfit = bisect_left(range(len(older)), True, key=lambda n: last is not None and stays(last, older[n:]) <= most)
    others, whole = older[:unfit], older[unfit:]
    reserve = max(min(sum(history.piece(piece).tokens for piece in others), int(room * SHORTENED_RATIO)), 0)

    run = find_cut(
        history,
        after=snapshot.covered_runs,
        keep_tokens=keep_tokens,
        size=kept,
        fits=lambda run: stays(run, whole) <= room - reserve,
    )
    if run is None:
        return None

    start, tokens = history.run_start(run), stays(run, whole)
    pinned = snapshot.pinned_pieces(start)
    hidden = [piece for piece in others if piece < start and piece not in pinned]
    short = shorten_requests(snapshot, hidden, max(room - tokens, reserve if tokens <= most else 0))
    requests = [piece for piece in (*short.whole, *whole) if piece < start]
    return Place(run, requests, short, kept(start), tokens + short.tokens)


def find_cut(
    history: History[M], *, after: int, keep_tokens: int, size: Callable[[int], int], fits: Callable[[int], bool]
) -> int | None:
    """Choose the first run to keep.

    Walk from the newest message back until `keep_tokens` is reached (inclusive), then forward to the next run that may begin a
    context: the speaker changes and no tool call is open (so never a tool result), and it is no answer cut short. Then go forward
    to the first run with which the view `fits`, and prefer a run that a user opens if it loses few of the kept tokens. If none
    fits, keep the last step alone.

    Args:
        after: Runs that earlier records cover; the cut lies above them.
        keep_tokens: Tokens to keep, before calibration.
        size: Returns the tokens of the messages from a piece on.
        fits: Whether the view that keeps everything from this run on is small enough; once true, true for later runs.

    Returns:
        The run; None if nothing can be summarized: no run above `after` may begin a context.
    """
    runs = range(max(after, history.runs_before_list) + 1, history.run_count)
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
