"""Keep the recent messages; a summary of the older ones, or an extract by rule, takes their place.

The facts that a summary lacks or contradicts, whoever wrote it, are added as far as there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Protocol, runtime_checkable

from compaction_hooks import arguments
from compaction_hooks.files.operations import read_calls
from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import M, Media, Message, Value
from compaction_hooks.strategies.candidate import Candidate, Goal, next_record, with_reductions
from compaction_hooks.strategies.reduce_parts import most_gain
from compaction_hooks.strategies.summary_plan import (
    MINIMUM_SUMMARY_TOKENS,
    Summarized,
    SummaryPlan,
    find_head_summary,
    plan_summary,
)
from compaction_hooks.summary.extractive import REQUESTS_SHARE, WORK_SHARES, select
from compaction_hooks.summary.extractive.outline import (
    LEFT_OUT,
    PARENTS,
    Item,
    Section,
    as_data,
    headed_sections,
    render,
)
from compaction_hooks.summary.extractive.statements import constraint_items, request_texts
from compaction_hooks.summary.extractive.steps import Failures, refused_items
from compaction_hooks.summary.extractive.text import one_line
from compaction_hooks.summary.facts import correct_failures, first_fitting, newest_fitting, next_identifiers
from compaction_hooks.tokens.budget import LEDGER_TOKENS
from compaction_hooks.tokens.estimator import name_media
from compaction_hooks.view.parts import find_handle
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import PROMPT_VERSION, RECALL_TOOL, render_summary

SAID_RATIO = 0.25
"""The most of the target that the user's words may take which a summary lacks; beyond it the newest are put back."""
HEADING_TOKENS = 20
"""Estimate of the longest heading, with the one above it."""
CORRECTIONS_TOKENS = 400
"""The most tokens of corrected failures and of refused calls: about ten."""
MEDIA_LEFT_OUT = "[Left out: "
"""The beginning of a line that names an image or a document of the user."""
MOST_MEDIA = 20
"""The most of these lines: the newest."""
NAME_CHARS = 80
"""The most characters of a line that names words of the user."""
OUR_SECTIONS = (Section.GOAL, Section.DONE, Section.IN_PROGRESS, Section.BLOCKED)
"""The sections that our prompt asks for and code can fill, without those that every summary gets: constraints and identifiers."""


@runtime_checkable
class SummaryStrategy(Protocol):
    """A strategy whose candidate needs a summary: it is asked twice."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of a summary; None if there is nothing to summarize."""
        ...

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M] | None:
        """Return the candidate that a summary of its plan gives; None if the summary is of no use."""
        ...


@arguments.validate(
    {
        "add_continuation": arguments.SWITCH,
        "ledger_tokens": arguments.whole("tokens", least=0),
    }
)
@dataclass(frozen=True, eq=False, repr=False)
class Summarize(Value):
    """Ask the summarizer for a summary that takes the place of all but the recent messages.

    It begins at the active view: messages that it covers need not be cleared or shortened before.

    Attributes:
        ledger_tokens: The most tokens of identifiers that are added to a summary which lacks them.
        add_continuation: Whether the summary ends with a line telling the model to go on, if no user message follows.
    """

    add_continuation: bool = True
    ledger_tokens: int = LEDGER_TOKENS

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of a summary; None if no message before the recent ones may be left out."""
        plan = plan_summary(snapshot, goal)
        if plan is None or not self.ledger_tokens:
            return plan
        listed = frozenset((*plan.files.modified, *plan.files.read) if plan.tags else ())
        found = cache(partial(next_identifiers, plan.messages, listed))  # for the prompt and for the repair
        return replace(plan, ledger_tokens=self.ledger_tokens, find_identifiers=found)

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M]:
        """Return the view in which the summary takes the place of the messages that the plan covers."""
        return summary_candidate(snapshot, goal, plan, summary, add_continuation=self.add_continuation)


def summary_candidate(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    summary: Summarized,
    *,
    add_continuation: bool,
) -> Candidate[M]:
    """Return the candidate of a summary, with those reductions of the active view that lie in the kept messages."""
    covered_digest = snapshot.history.digest_before(plan.cut)
    assert covered_digest is not None  # a cut lies between runs of this history
    unseen = plan.host_count(summary.unseen) + (snapshot.record.unseen_message_count if snapshot.record else 0)
    render = partial(
        render_summary,
        file_tags=plan.tags,
        continuation=add_continuation and not plan.ends_with_user,
        covered=plan.host_messages,
        unseen=unseen,
        has_recall=snapshot.has_recall,
    )
    text = summary.text
    if summary.native is None:
        text = repair_summary(snapshot, goal, plan, summary, render)
    rendered = render(text)
    draft = next_record(snapshot, goal)
    record = replace(
        draft,
        prompt_version=PROMPT_VERSION,
        summary=text,
        previous_summary=plan.previous_summary,
        rendered=rendered,
        compacted_message_count=plan.host_messages,
        unseen_message_count=unseen,
        covered_runs=plan.cut,
        covered_digest=covered_digest,
        pins=plan.pins,
        read_files=plan.files.read,
        modified_files=plan.files.modified,
        digest=plan.digest,
        usage=summary.usage,
        native=summary.native,
        reductions=(),
    )
    kept = [item for item in draft.reductions if item.run >= plan.cut]
    return Candidate(snapshot=snapshot, record=with_reductions(record, kept), is_enough=not plan.reaches_target)


@arguments.validate({"add_continuation": arguments.SWITCH})
@dataclass(frozen=True, eq=False, repr=False)
class DropOldest(Value):
    """Drop all but the recent messages, if a summary of them failed.

    It begins at the active view, and proposes nothing if the candidate so far covers as much and may be sent.

    Attributes:
        add_continuation: Whether the extract ends with a line telling the model to go on, if no user message follows.
    """

    add_continuation: bool = True

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of an extract; None if the candidate so far covers as much, or nothing may be left out."""
        plan = plan_summary(snapshot, goal)
        if plan is None or (goal.start and goal.may_send_start and goal.start.record.covered_runs >= plan.cut):
            return None
        room = plan.allowance - snapshot.text_tokens(drop_marker(plan))
        return replace(plan, needs_model=False, allowance=room)

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M]:
        """Return the view without the messages that the plan covers."""
        marked = replace(summary, text=f"{drop_marker(plan)}\n\n{summary.text}")
        candidate = summary_candidate(snapshot, goal, plan, marked, add_continuation=self.add_continuation)
        return replace(candidate, is_enough=False)


def drop_marker(plan: SummaryPlan) -> str:
    """Return the line that counts the messages dropped without a summary, by role (Opal's `truncate`)."""
    messages = plan.messages
    roles = Counter(message.role for message in messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"[Compacted {len(messages)} messages: {counts}]"


def repair_summary(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    summary: Summarized,
    show: Callable[[str], str],
) -> str:
    """Return a summary with the facts that it lacks, word for word, as far as the view stays at the target.

    They are, in this order: words of the user, or lines that name them; lines that name the user's images and documents; failures
    that it reports although they are mended; refused calls with the words that their results give as the user's; sections that our
    prompt asked for; and the identifiers most likely needed next. A summary made by rule lacks what comes from the user at most.

    Args:
        show: Returns the text of a summary's message.
    """
    start = snapshot.history.run_start(plan.cut)
    words = _find_words(snapshot, plan, start)
    said = _said(snapshot, plan, words)
    wanted = _lacking(summary.text, said, Section.CONSTRAINTS)
    media = _lacking(summary.text, _left_out(plan, words), Section.USER_FACTS)
    if summary.is_by_rule and not wanted and not media:
        return summary.text
    size = snapshot.estimator.estimate_tokens
    repair = _Repair(summary.text, lambda text: snapshot.text_tokens(show(text)))
    most_of_words, most = _find_limits(snapshot, goal, plan, size(summary.text), repair.tokens)

    repair.most = most_of_words
    if wanted:
        kept = newest_fitting(wanted, min(repair.room, int(snapshot.room(goal.budget.target) * SAID_RATIO)), size)
        repair.add(kept)
        lines = (_name_words(snapshot, item.text, said[item.text]) for item in wanted[: len(wanted) - len(kept)])
        repair.name(list(lines), size)
    repair.add(newest_fitting(media, repair.room, size))
    if not summary.is_by_rule:
        repair.most = most
        corrected = correct_failures(summary.text, partial(_find_failures, snapshot, plan))
        refused = refused_items(plan.facts.calls)
        corrected = newest_fitting([*refused, *corrected], min(repair.room, CORRECTIONS_TOKENS), size)
        missing = _missing_sections(plan, summary, repair.room)
        repair.add([*{item.text: item for item in (*corrected, *missing)}.values()])
        lacking = [item for item in plan.find_identifiers() if item.text not in repair.text]
        repair.add(first_fitting(lacking, min(repair.room, plan.ledger_tokens), size))
    return repair.text


def _find_limits(
    snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, text_tokens: int, message_tokens: int
) -> tuple[int, int]:
    """Return the most tokens of the summary's message with words of the user, and with all other facts.

    Args:
        text_tokens: Size of the summary as it is.
        message_tokens: Size of its message.
    """
    start = snapshot.history.run_start(plan.cut)
    kept = snapshot.history.tokens(start)
    most = snapshot.room(goal.budget.target) - snapshot.tokens_above(start) - kept
    excess = message_tokens + HEADING_TOKENS - most
    if excess <= 0:
        return most, most
    allowed = plan.allowance - text_tokens + excess
    if excess <= kept:  # the kept messages are shortened next
        most += min(most_gain(snapshot, goal, plan.cut), allowed)
        return most, most
    # Next to a system prompt larger than the target, the user's words have the room that any summary has.
    return most + allowed, most


class _Repair:
    """A summary in repair.

    Args:
        measure: Returns the size of the message with a summary.

    Attributes:
        most: The most tokens of that message.
    """

    def __init__(self, text: str, measure: Callable[[str], int]) -> None:
        self.text: str = text
        self._measure = measure
        self.most = self.tokens = measure(text)

    @property
    def room(self) -> int:
        """The tokens that the text leaves for lines under a new heading."""
        return self.most - self.tokens - HEADING_TOKENS

    def add(self, items: Sequence[Item]) -> None:
        """Add items, each section's under its heading if the text has that, else at its end."""
        text, items = self.text, [*map(as_data, items)]
        for section in dict.fromkeys(item.section for item in items):
            title = section.value if f"{section.value}\n" in text else PARENTS.get(section, section.value)
            before, heading, after = text.partition(f"{title}\n")
            if heading:
                lines = render([item for item in items if item.section is section]).rpartition(heading)[2]
                text = f"{before}{heading}{lines}\n{after}"
                items = [item for item in items if item.section is not section]
        self._take(f"{text.rstrip()}\n\n{render(items)}".strip() if items else text)

    def name(self, lines: Sequence[str], size: Callable[[str], int]) -> None:
        """Add as many of the last lines as fit at the end, and the number of the others, which takes as much as a heading."""
        items = [Item(section=Section.NOTES, text=line) for line in lines]
        fitting = newest_fitting(items, self.room - HEADING_TOKENS, size)
        left = len(lines) - len(fitting)
        count = [f"{LEFT_OUT}{left:,} earlier constraints of the user)"] if left else []
        if lines:
            self._take("\n".join([f"{self.text}\n", *count, *(item.text for item in fitting)]))

    def _take(self, text: str) -> None:
        # The items were chosen by estimates of their lines: the whole may be larger.
        if text != self.text and (tokens := self._measure(text)) <= self.most:
            self.text, self.tokens = text, tokens


def _said(snapshot: Snapshot[M], plan: SummaryPlan, words: Mapping[int, UserWords]) -> dict[str, int | None]:
    """Return the user's constraints, oldest first, with their piece."""
    history = snapshot.history
    said: dict[str, int | None] = {}
    if history.base or snapshot.readable_native is not None or find_head_summary(history) is not None:
        # The list lacks older messages: their words are in the earlier summary, among those of its writer.
        said = {item.text: None for item in plan.facts.earlier if item.section is Section.CONSTRAINTS}
    for index, found in words.items():
        said |= dict.fromkeys(found.constraints, index)
    return said


def _left_out(plan: SummaryPlan, words: Mapping[int, UserWords]) -> list[str]:
    """Return a line for each of the user's images and documents, oldest first."""
    lines = [item.text for item in plan.facts.earlier if item.text.startswith(MEDIA_LEFT_OUT)]
    lines += (line for found in words.values() for line in found.media)
    return [*dict.fromkeys(lines)][-MOST_MEDIA:]


def _find_words(snapshot: Snapshot[M], plan: SummaryPlan, start: int) -> Mapping[int, UserWords]:
    """Return the user's words before piece `start`, oldest first, by piece; those in messages that stay are in view.

    Each piece is read once.
    """
    history, pinned = snapshot.history, {*snapshot.pinned_pieces(start)}
    first, known = history.log.user_words
    read = {index: _read_words(history.piece(index).message, plan) for index in history.pieces_of_user(start, first)}
    known = {**known, **{index: found for index, found in read.items() if any(found)}}
    history.log.user_words = max(first, start), known
    return {index: found for index, found in known.items() if index < start and index not in pinned}


def _read_words(message: Message, plan: SummaryPlan) -> UserWords:
    constraints = plan.facts.constraints.get(id(message))
    if constraints is None:  # covered by an earlier record
        constraints = constraint_items(request_texts([message]), ())
    media = (f"{MEDIA_LEFT_OUT}{name_media(part)}]" for part in message.parts if isinstance(part, Media))
    return UserWords(tuple(item.text for item in constraints), tuple(media))


def _find_failures(snapshot: Snapshot[M], plan: SummaryPlan) -> Failures:
    """Return the failures of all calls. Those before the cut are kept, and the next compaction goes on from there."""
    history = snapshot.history
    run, known = history.log.failures
    if not isinstance(known, Failures) or run > plan.cut or not history.is_boundary(run):  # a rewind, or a late result
        run, known = history.base, Failures()
    if run == snapshot.covered_runs:
        calls = plan.facts.calls
    else:
        first = history.run_start(run) if run > history.base else 0
        calls = read_calls(piece.message for piece in history.pieces(first, history.run_start(plan.cut)))
    known = known.add(calls)  # no call is open at a cut
    history.log.failures = plan.cut, known
    return known.add(plan.facts.kept_calls)


def _lacking(text: str, said: Iterable[str], section: Section) -> list[Item]:
    """Return items for the words that a text lacks, however it breaks its lines."""
    plain = " ".join(text.split())
    items = [Item(section=section, text=words) for words in said if "<" in words or words not in plain]
    return [item for item in items if as_data(item).text not in plain]


def _name_words(snapshot: Snapshot[M], words: str, piece: int | None) -> str:
    """Return a line of at most `NAME_CHARS` characters with the beginning of the user's words, and the handle of their message."""
    handle = find_handle(snapshot.history, piece) if snapshot.has_recall and piece is not None else ""
    ending = f'; {RECALL_TOOL}("{handle}"))' if handle else "; not shown)"
    return LEFT_OUT + one_line(words, NAME_CHARS - len(LEFT_OUT) - len(ending)) + ending


def _missing_sections(plan: SummaryPlan, summary: Summarized, room: int) -> list[Item]:
    """Return items for the sections that our prompt asked for and that have neither heading nor items."""
    if not summary.has_our_headings or room < MINIMUM_SUMMARY_TOKENS:
        return []
    headed = headed_sections(summary.text)
    room = min(room - plan.ledger_tokens, plan.allowance)
    items = (
        item
        for section in OUR_SECTIONS
        if section not in headed
        for item in plan.facts.section(section, room * REQUESTS_SHARE)
    )
    return select([*map(as_data, items)], room, WORK_SHARES)
