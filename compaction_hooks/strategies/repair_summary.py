"""What a summary lacks or contradicts, whoever wrote it, is put back word for word, as far as there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial

from compaction_hooks.files.operations import read_calls
from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import M, Media, Message
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.reduce_parts import most_gain
from compaction_hooks.strategies.summary_plan import (
    Summarized,
    SummaryPlan,
    find_head_summary,
)
from compaction_hooks.summary.extractive import select, summarize_by_rule
from compaction_hooks.summary.extractive.findings import Findings
from compaction_hooks.summary.extractive.outline import (
    LEFT_OUT,
    PARENTS,
    REQUESTS,
    Item,
    Section,
    as_data,
    headed_sections,
    render,
    settled_lines,
)
from compaction_hooks.summary.extractive.replies import parse_reply
from compaction_hooks.summary.extractive.statements import constraint_items, request_texts
from compaction_hooks.summary.extractive.steps import Failures, read_steps, refused_items
from compaction_hooks.summary.extractive.text import one_line
from compaction_hooks.summary.facts import LINE_TOKENS, correct_failures, first_fitting, newest_fitting
from compaction_hooks.tokens.budget import IDENTIFIER_TOKENS
from compaction_hooks.tokens.estimator import name_media
from compaction_hooks.view.parts import find_handle
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import RECALL_TOOL

CONSTRAINTS_RATIO, SMALL_RATIO = 0.5, 0.4
"""The part of a summary that constraints of the user may take which it lacks; beyond it the newest are put back. The second holds
below `SMALL_TOKENS`: with half of 400 tokens for constraints, a fifth of what the user told was left, else half and more."""
NAMED_RATIO = 0.25
"""The part of a summary that gives way to the other constraints: to short ones, and to lines that name the rest."""
SHORT_RATIO = 0.2
"""The part of a summary that short ones take of it: a line that names them would be no shorter."""
FILLED_RATIO = 0.5
"""The most that a summary may have with what is filled in, next to the size of the one before, as a part of the other messages
that it replaces: else nothing is gained."""
SMALL_TOKENS = 500
"""Below this allowance the sentences around a summary are short, too: the long ones would take a fifth of its room and more."""
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
OUR_SECTIONS = {Section.DONE, Section.IN_PROGRESS, Section.BLOCKED}
"""The sections that our prompt asks for and code can fill, if a text has neither heading nor items."""
FILLED = {
    *REQUESTS,
    Section.DONE,
    Section.STATE,
    Section.USER_FACTS,
    Section.ASSISTANT_FACTS,
    Section.REPLIES,
    Section.CAUSES,
}
"""The sections that are filled in any case, with identifiers: others would repeat the model's own words of an earlier summary."""
TRIES, STEP, SLACK = 12, 0.9, 1.4
"""Choices of items, whose sizes are estimates, for the room that is left; the part of the room that each leaves to the next; and
the part that the first of `select` has, which counts more than an estimator."""


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
    words = _find_words(snapshot, plan, snapshot.history.run_start(plan.cut))
    constraints = _list_constraints(snapshot, plan, words)
    media = _lacking(summary.text, _left_out(plan, words), Section.USER_FACTS)
    if summary.is_by_rule and not media and not _lacking(summary.text, constraints, Section.CONSTRAINTS):
        return summary.text

    size = snapshot.estimator.estimate_tokens
    repair = _Repair(summary.text, lambda text: snapshot.text_tokens(show(text)), size, plan.allowance)
    earlier_tokens = snapshot.text_tokens(show(plan.previous_summary or ""))
    most_of_words, most = _find_limits(snapshot, goal, plan, repair.tokens, earlier_tokens)

    repair.most = most_of_words
    _add_constraints(repair, snapshot, plan, constraints)
    repair.add(lambda room: newest_fitting(media, room, size))
    if summary.is_by_rule:
        return repair.text

    repair.most = most
    corrected = correct_failures(summary.text, partial(_find_failures, snapshot, plan))
    corrected = [*refused_items(plan.facts.calls), *corrected]
    repair.add(lambda room: newest_fitting(corrected, min(room, CORRECTIONS_TOKENS), size))
    _fill(repair, plan, summary, size)
    return repair.text


def _add_constraints(
    repair: _Repair, snapshot: Snapshot[M], plan: SummaryPlan, constraints: Mapping[str, int | None]
) -> None:
    """Add the user's constraints that a text lacks; those without room are named."""
    lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)
    if not lacking:
        return

    size = snapshot.estimator.estimate_tokens
    most = int(plan.allowance * (SMALL_RATIO if plan.allowance < SMALL_TOKENS else CONSTRAINTS_RATIO))
    if newest_fitting(lacking, repair.room, size) != lacking:
        _make_room(repair, snapshot, plan, constraints, most)
        lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)

    added = repair.add(lambda room: newest_fitting(lacking, min(room, most), size))
    short = [item for item in lacking if item not in added and len(item.text) <= NAME_CHARS]
    added += repair.add(lambda room: newest_fitting(short, min(room, int(plan.allowance * SHORT_RATIO)), size))

    lines = [_name_words(snapshot, item.text, constraints[item.text]) for item in lacking if item not in added]
    repair.name(lines, int(plan.allowance * NAMED_RATIO) - sum(size(i.text) for i in added if i in short), size)


def _make_room(
    repair: _Repair, snapshot: Snapshot[M], plan: SummaryPlan, constraints: Mapping[str, int | None], most: int
) -> None:
    """Write a text anew, by rule, so short that it leaves room for the user's constraints.

    Args:
        most: The most tokens of constraints.
    """
    size = snapshot.estimator.estimate_tokens
    items = newest_fitting(_lacking("", constraints, Section.CONSTRAINTS), most, size)
    older = [*constraints][: len(constraints) - len(items)]
    names = _lacking("", [_name_words(snapshot, text, constraints[text]) for text in older], Section.NOTES)
    named = newest_fitting(names, int(plan.allowance * NAMED_RATIO), size)

    taken = sum(size(item.text) + LINE_TOKENS for item in (*items, *named)) + 3 * HEADING_TOKENS
    facts = Findings((), repair.text, ())
    repair.shrink(summarize_by_rule(facts, min(plan.allowance - taken, size(repair.text))))


def _find_limits(
    snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, message_tokens: int, earlier_tokens: int
) -> tuple[int | None, int]:
    """Return the most tokens of the summary's message with words of the user, None without a limit, and with all other facts.

    Args:
        message_tokens: Size of the message as it is.
        earlier_tokens: Size of the message that it replaces, whose facts should stay.
    """
    start = snapshot.history.run_start(plan.cut)
    kept = snapshot.history.tokens(start)
    most = snapshot.room(goal.budget.target) - snapshot.tokens_above(start) - kept

    excess = message_tokens + HEADING_TOKENS - most
    if 0 < excess <= kept:  # the kept messages are shortened next
        most += most_gain(snapshot, goal, plan.cut)
    # Next to a system prompt larger than the target, the user's words have the room that any summary has.
    most_of_words = None if excess > kept else most

    replaced = snapshot.estimated - snapshot.tokens_above(start) - kept
    filled = earlier_tokens + int((replaced - earlier_tokens) * FILLED_RATIO)
    return most_of_words, min(most, max(filled, message_tokens))


def _fill(repair: _Repair, plan: SummaryPlan, summary: Summarized, size: Callable[[str], int]) -> None:
    """Add the items of the default summary that a text lacks, as far as there is room.

    In a form of its own, a text gets identifiers, or what the user told if there are no tools and the host gave no form.
    """
    identifier_tokens = plan.identifier_tokens
    if identifier_tokens is None and not summary.has_our_headings:
        identifier_tokens = IDENTIFIER_TOKENS
    sections = _choose_sections(plan, summary)
    if not sections and identifier_tokens == 0:
        return

    facts = plan.facts
    text = plan.tags + repair.text
    lines = settled_lines(text)
    lacking = [item for item in map(as_data, facts.list_items(repair.room)) if item.text not in text]
    # The answer that a writer tells in other words need not be told again; a plan to do what was asked tells no answer.
    lacking = [i for i in lacking if i.section is not Section.REPLIES or not parse_reply(i.text).is_told(lines)]
    # In a conversation without tools requests are facts too, and facts are in place of identifiers.
    lacking = [
        item._replace(section=Section.ASKED, must=item.must and not facts.is_chat)
        if item.section is Section.GOAL
        else item
        for item in lacking
    ]

    listed = Section.USER_FACTS if facts.is_chat and not summary.has_form else Section.IDENTIFIERS
    names = [item for item in lacking if item.section is listed]
    if identifier_tokens is not None:
        names = first_fitting(sorted(names, key=lambda item: -item.value), identifier_tokens, size)
    items = [*(item for item in lacking if item.section in sections - {listed}), *names]
    repair.add(lambda room: select(items, (room + HEADING_TOKENS) * SLACK, facts.shares))


def _choose_sections(plan: SummaryPlan, summary: Summarized) -> Set[Section]:
    """Return the sections to fill in a text; none in a text with a form of its own."""
    if not summary.has_our_headings:
        return set()

    headed = headed_sections(summary.text)
    sections = OUR_SECTIONS - headed
    if plan.identifier_tokens is None:
        sections |= FILLED
    if Section.GOAL not in headed:
        sections |= {*REQUESTS}
    return sections


class _Repair:
    """A summary in repair.

    Args:
        measure: Returns the size of the message with a summary.
        size: Returns the size of a summary alone.
        allowance: The most tokens of the summary alone.

    Attributes:
        text: The summary so far.
        tokens: The size of its message.
        most: The most tokens of that message; None: no limit.
    """

    most: int | None = None

    def __init__(self, text: str, measure: Callable[[str], int], size: Callable[[str], int], allowance: int) -> None:
        self.text: str = text
        self.tokens = measure(text)
        self._measure, self._size, self._allowance = measure, size, allowance

    @property
    def room(self) -> int:
        """The tokens that the text leaves for lines under a new heading."""
        room = self._allowance - self._size(self.text)
        return min(room, room if self.most is None else self.most - self.tokens) - HEADING_TOKENS

    def shrink(self, text: str) -> None:
        """Take a smaller text in place of the one so far."""
        self.text, self.tokens = text, self._measure(text)

    def add(self, choose: Callable[[int], list[Item]]) -> list[Item]:
        """Add the items that are chosen for the room that is left, and return them; if they do not fit, those for a smaller one."""
        room = self.room
        for _ in range(TRIES):
            items = choose(room)
            if self._take(self._text_with([*map(as_data, items)])):
                return items
            room = int(room * STEP)
        return []

    def _text_with(self, items: Sequence[Item]) -> str:
        """Return the text with items, each section's under its heading if the text has that, else at its end."""
        text = self.text
        for section in dict.fromkeys(item.section for item in items):
            title = section.value if f"{section.value}\n" in text else PARENTS.get(section, section.value)
            before, heading, after = text.partition(f"{title}\n")
            if heading:
                lines = render([item for item in items if item.section is section]).rpartition(heading)[2]
                text = f"{before}{heading}{lines}\n{after}"
                items = [item for item in items if item.section is not section]
        return f"{text.rstrip()}\n\n{render(items)}".strip() if items else text

    def name(self, lines: Sequence[str], most: int, size: Callable[[str], int]) -> None:
        """Add at the end as many of the last lines as fit in `most` tokens, and the number of the others, as long as a heading."""
        items = [Item(section=Section.NOTES, text=line) for line in lines]
        room = min(self.room, most) - HEADING_TOKENS

        for _ in range(TRIES if lines else 0):
            fitting = newest_fitting(items, room, size)
            left = len(lines) - len(fitting)
            count = [f"{LEFT_OUT}{left:,} earlier constraints of the user)"] if left else []
            if self._take("\n".join([f"{self.text}\n", *count, *(item.text for item in fitting)])):
                return
            room = int(room * STEP)

    def _take(self, text: str) -> bool:
        """Take a text if it fits, and return whether it does."""
        tokens = self._measure(text) if text != self.text else self.tokens
        fits = text == self.text or (self._size(text) <= self._allowance and (self.most is None or tokens <= self.most))
        if fits:
            self.text, self.tokens = text, tokens
        return fits


def _list_constraints(
    snapshot: Snapshot[M], plan: SummaryPlan, words: Mapping[int, UserWords]
) -> dict[str, int | None]:
    """Return the user's constraints, oldest first, with their piece."""
    history = snapshot.history
    constraints: dict[str, int | None] = {}
    if history.runs_before_list or snapshot.readable_native is not None or find_head_summary(history) is not None:
        # The list lacks older messages: their words are in the earlier summary, among those of its writer.
        constraints = {item.text: None for item in plan.facts.earlier if item.section is Section.CONSTRAINTS}

    for index, spoken in words.items():
        constraints |= dict.fromkeys(spoken.constraints, index)
    return constraints


def _left_out(plan: SummaryPlan, words: Mapping[int, UserWords]) -> list[str]:
    """Return a line for each of the user's images and documents, oldest first."""
    lines = [item.text for item in plan.facts.earlier if item.text.startswith(MEDIA_LEFT_OUT)]
    lines += (line for spoken in words.values() for line in spoken.media)
    return [*dict.fromkeys(lines)][-MOST_MEDIA:]


def _find_words(snapshot: Snapshot[M], plan: SummaryPlan, start: int) -> Mapping[int, UserWords]:
    """Return the user's words before piece `start`, oldest first, by piece; those in messages that stay are in view.

    Each piece is read once.
    """
    history, pinned = snapshot.history, {*plan.pinned}
    first, known = history.log.user_words
    read = {index: _read_words(history.piece(index).message, plan) for index in history.pieces_of_user(start, first)}
    known = {**known, **{index: words for index, words in read.items() if any(words)}}
    history.log.user_words = max(first, start), known
    return {index: words for index, words in known.items() if index < start and index not in pinned}


def _read_words(message: Message, plan: SummaryPlan) -> UserWords:
    constraints = constraint_items(request_texts([message]), (), plan.facts.find_limits)
    media = (f"{MEDIA_LEFT_OUT}{name_media(part)}]" for part in message.parts if isinstance(part, Media))
    return UserWords(tuple(item.text for item in constraints), tuple(media))


def _find_failures(snapshot: Snapshot[M], plan: SummaryPlan) -> Failures:
    """Return the failures of all calls. Those before the cut are kept, and the next compaction goes on from there."""
    history = snapshot.history
    run, known = history.log.failures
    if not isinstance(known, Failures) or run > plan.cut or not history.is_boundary(run):  # a rewind, or a late result
        run, known = history.runs_before_list, Failures()

    if run == snapshot.covered_runs:
        known = known.add(plan.facts.steps)
    else:
        first = history.run_start(run) if run > history.runs_before_list else 0
        pieces = history.pieces(first, history.run_start(plan.cut))  # no call is open at a cut
        known = known.add(read_steps(read_calls(piece.message for piece in pieces)))

    history.log.failures = plan.cut, known
    return known.add(plan.facts.kept_steps)


def _lacking(text: str, quotes: Iterable[str], section: Section) -> list[Item]:
    """Return items for the words that a text lacks, however it breaks its lines."""
    plain = " ".join(text.split())
    items = [Item(section=section, text=words) for words in quotes if "<" in words or words not in plain]
    return [item for item in items if as_data(item).text not in plain]


def _name_words(snapshot: Snapshot[M], words: str, piece: int | None) -> str:
    """Return a line of at most `NAME_CHARS` characters with the beginning of the user's words, and the handle of their message."""
    handle = find_handle(snapshot.history, piece) if snapshot.has_recall and piece is not None else ""
    ending = f'; {RECALL_TOOL}("{handle}"))' if handle else "; not shown)"
    return LEFT_OUT + one_line(words, NAME_CHARS - len(LEFT_OUT) - len(ending)) + ending
