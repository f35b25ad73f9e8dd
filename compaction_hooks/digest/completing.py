"""What a text lacks or contradicts, whoever wrote it, is put back word for word, as far as there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Protocol

from compaction_hooks.digest.outline import (
    LEFT_OUT,
    LINE_TOKENS,
    PARENTS,
    REQUESTS,
    Item,
    Section,
    Size,
    as_data,
    first_fitting,
    headed_sections,
    items_under,
    newest_fitting,
    parse,
    render,
    settled_lines,
)
from compaction_hooks.digest.reading import MEDIA_LEFT_OUT, Facts
from compaction_hooks.digest.replies import parse_reply
from compaction_hooks.digest.steps import is_reported, refused_items, tells_error
from compaction_hooks.digest.text import one_line
from compaction_hooks.digest.writing import select, write
from compaction_hooks.history.history import UserWords
from compaction_hooks.tokens.budget import IDENTIFIER_TOKENS, SMALL_SUMMARY_TOKENS
from compaction_hooks.view.texts import RECALL_TOOL

CONSTRAINTS_RATIO, SMALL_RATIO = 0.5, 0.4
"""The part of a summary that constraints of the user may take which it lacks; beyond it the newest are put back. The second holds
below `SMALL_SUMMARY_TOKENS`: with half of 400 tokens for constraints, a fifth of the user's facts was left, else half and more."""
NAMED_RATIO = 0.25
"""The part of a summary that gives way to the other constraints: to short ones, and to lines that name the rest."""
SHORT_RATIO = 0.2
"""The part of a summary that short ones take of it: a line that names them would be no shorter."""
HEADING_TOKENS = 20
"""Estimate of the longest heading, with the one above it."""
CORRECTIONS_TOKENS = 400
"""The most tokens of corrected failures and of refused calls: about ten."""
MOST_MEDIA = 20
"""The most lines that name the user's images and documents: the newest."""
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


class WrittenSummary(Protocol):
    """A summary that someone wrote.

    Attributes:
        is_by_rule: Whether code chose it.
        has_our_headings: Whether it was asked for with our headings, or has some of them.
        has_form: Whether the host gave the form.
    """

    @property
    def text(self) -> str: ...
    @property
    def is_by_rule(self) -> bool: ...
    @property
    def has_our_headings(self) -> bool: ...
    @property
    def has_form(self) -> bool: ...


class Room(Protocol):
    """The place of a summary in a view, and what the conversation tells beyond the messages that it covers.

    Attributes:
        allowance: The most tokens of the summary alone.
        identifier_tokens: The most tokens of identifiers that are added; None: all that is left, or a few in a form of its own.
        tags: The file lists that follow it.
    """

    @property
    def allowance(self) -> int: ...
    @property
    def identifier_tokens(self) -> int | None: ...
    @property
    def tags(self) -> str: ...

    def size(self, text: str, /) -> int:
        """Return the tokens of a summary alone."""
        ...

    def message_size(self, text: str, /) -> int:
        """Return the tokens of the message with a summary."""
        ...

    def find_limits(self, message_tokens: int, heading_tokens: int, /) -> tuple[int | None, int]:
        """Return the most tokens of that message with words of the user, None without a limit, and with all other facts.

        Args:
            message_tokens: Size of the message as it is.
            heading_tokens: Size of the shortest addition.
        """
        ...

    def find_words(self) -> Mapping[int | None, UserWords]:
        """Return the user's words, by piece, oldest first; None: those that only the summary before has."""
        ...

    def find_handle(self, piece: int, /) -> str:
        """Return the handle by which the recall tool shows a piece; empty without the tool."""
        ...

    def find_failures(self) -> object:
        """Return the failures of all covered calls, as `Facts.add_failures` does. It takes long, and most summaries report none."""
        ...


def complete(written: WrittenSummary, facts: Facts, room: Room) -> str:
    """Return a summary with the facts that it lacks, word for word, as far as there is room.

    They are, in this order: words of the user, or lines that name them; lines that name the user's images and documents; failures
    that it reports although they are mended; refused calls with the words that their results give as the user's; sections that our
    prompt asked for; and the identifiers most likely needed next. A summary made by rule lacks what comes from the user at most.

    Args:
        facts: Those of the messages that the summary covers.
    """
    text, words = written.text, room.find_words()
    constraints = {limit: piece for piece, spoken in words.items() for limit in spoken.constraints}
    media = _lacking(text, _left_out(facts, words), Section.USER_FACTS)
    if written.is_by_rule and not media and not _lacking(text, constraints, Section.CONSTRAINTS):
        return text

    repair = _Repair(text, room.message_size, room.size, room.allowance)
    most_of_words, most = room.find_limits(repair.tokens, HEADING_TOKENS)

    repair.most = most_of_words  # none, or no smaller one than that of the other facts
    _add_constraints(repair, constraints, room.find_handle)
    repair.add(lambda tokens: newest_fitting(media, tokens, room.size))
    if written.is_by_rule:
        return repair.text

    repair.most = most
    corrected = [*refused_items(facts.calls), *_correct_failures(text, facts, room.find_failures)]
    repair.add(lambda tokens: newest_fitting(corrected, min(tokens, CORRECTIONS_TOKENS), room.size))

    _fill(repair, written, facts, room)
    return repair.text


def _left_out(facts: Facts, words: Mapping[int | None, UserWords]) -> list[str]:
    """Return a line for each of the user's images and documents, oldest first."""
    earlier = (item.text for item in facts.earlier if item.text.startswith(MEDIA_LEFT_OUT))
    lines = dict.fromkeys((*earlier, *(line for spoken in words.values() for line in spoken.media)))
    return [*lines][-MOST_MEDIA:]


def _lacking(text: str, quotes: Iterable[str], section: Section) -> list[Item]:
    """Return items for the words that a text lacks, however it breaks its lines."""
    plain = " ".join(text.split())
    items = [Item(section=section, text=words) for words in quotes if "<" in words or words not in plain]
    return [item for item in items if as_data(item).text not in plain]


def _add_constraints(repair: _Repair, constraints: Mapping[str, int | None], find_handle: Callable[[int], str]) -> None:
    """Add the user's constraints that a text lacks; those without room are named."""
    lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)
    if not lacking:
        return

    name = partial(_name_words, constraints, find_handle)
    size, allowance = repair.size, repair.allowance
    most = int(allowance * (SMALL_RATIO if allowance < SMALL_SUMMARY_TOKENS else CONSTRAINTS_RATIO))
    if newest_fitting(lacking, repair.room, size) != lacking:
        _make_room(repair, [*constraints], name, most)
        lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)

    added = repair.add(lambda room: newest_fitting(lacking, min(room, most), size))
    short = [item for item in lacking if item not in added and len(item.text) <= NAME_CHARS]
    added += repair.add(lambda room: newest_fitting(short, min(room, int(allowance * SHORT_RATIO)), size))

    lines = [name(item.text) for item in lacking if item not in added]
    repair.name(lines, int(allowance * NAMED_RATIO) - sum(size(i.text) for i in added if i in short))


def _make_room(repair: _Repair, constraints: Sequence[str], name: Callable[[str], str], most: int) -> None:
    """Write a text anew, by rule, so short that it leaves room for the user's constraints.

    Args:
        name: Returns the line that names one.
        most: The most tokens of constraints.
    """
    size, allowance = repair.size, repair.allowance
    items = newest_fitting(_lacking("", constraints, Section.CONSTRAINTS), most, size)
    older = constraints[: len(constraints) - len(items)]
    names = _lacking("", map(name, older), Section.NOTES)
    named = newest_fitting(names, int(allowance * NAMED_RATIO), size)

    taken = sum(size(item.text) + LINE_TOKENS for item in (*items, *named)) + 3 * HEADING_TOKENS
    repair.shrink(write(Facts((), repair.text), min(allowance - taken, size(repair.text))))


def _name_words(constraints: Mapping[str, int | None], find_handle: Callable[[int], str], words: str) -> str:
    """Return a line of at most `NAME_CHARS` characters with the beginning of the user's words, and the handle of their message."""
    piece = constraints[words]
    handle = "" if piece is None else find_handle(piece)
    ending = f'; {RECALL_TOOL}("{handle}"))' if handle else "; not shown)"
    return LEFT_OUT + one_line(words, NAME_CHARS - len(LEFT_OUT) - len(ending)) + ending


def _correct_failures(text: str, facts: Facts, find_failures: Callable[[], object]) -> list[Item]:
    """Return the steps that a summary reports as failing although the same thing succeeded later, oldest first."""
    lines = [item for item in parse(text) if item.section is Section.BLOCKED or tells_error(item.text)]
    mended = facts.add_failures(find_failures(), ()).add(facts.kept_steps).mended_items() if lines else []
    return [item for item in mended if item.text not in text and any(is_reported(item, line.text) for line in lines)]


def _choose_sections(text: str, identifier_tokens: int | None) -> Set[Section]:
    """Return the sections to fill in a text with our headings."""
    headed = headed_sections(text)
    sections = OUR_SECTIONS - headed
    if identifier_tokens is None:
        sections |= FILLED
    if Section.GOAL not in headed:
        sections |= {*REQUESTS}
    return sections


def _fill(repair: _Repair, written: WrittenSummary, facts: Facts, room: Room) -> None:
    """Fill the sections that our prompt asked for, and add the identifiers most likely needed next.

    A text without our headings gets only these. In a conversation without tools, the user's facts take their place.
    """
    sections: Set[Section] = set()
    identifier_tokens = room.identifier_tokens
    if written.has_our_headings:
        sections = _choose_sections(written.text, identifier_tokens)
    elif identifier_tokens is None:
        identifier_tokens = IDENTIFIER_TOKENS

    if sections or identifier_tokens != 0:
        listed = Section.USER_FACTS if facts.is_chat and not written.has_form else Section.IDENTIFIERS
        _add_items(repair, facts, room.tags, sections - {listed}, listed, identifier_tokens)


def _add_items(
    repair: _Repair, facts: Facts, tags: str, sections: Set[Section], listed: Section, most: int | None
) -> None:
    """Add the items of the default summary that a text lacks, as far as there is room.

    Args:
        sections: Those that are filled.
        listed: One more, of which only the best are added: identifiers, or what the user told if there are no tools.
        most: The most tokens of these; None: no limit.
    """
    text = tags + repair.text
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

    names = items_under(lacking, listed)
    if most is not None:
        names = first_fitting(sorted(names, key=lambda item: -item.value), most, repair.size)
    items = [*items_under(lacking, *sections), *names]
    repair.add(lambda room: select(items, (room + HEADING_TOKENS) * SLACK, facts.shares))


class _Repair:
    """A summary in repair.

    Args:
        measure: Returns the size of the message with a summary.

    Attributes:
        size: Returns the size of a summary alone.
        allowance: The most tokens of the summary alone.
        text: The summary so far.
        tokens: The size of its message.
        most: The most tokens of that message; None: no limit.
    """

    most: int | None = None

    def __init__(self, text: str, measure: Size, size: Size, allowance: int) -> None:
        self.text: str = text
        self.tokens = measure(text)
        self._measure, self.size, self.allowance = measure, size, allowance

    @property
    def room(self) -> int:
        """The tokens that the text leaves for lines under a new heading."""
        room = self.allowance - self.size(self.text)
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

    def name(self, lines: Sequence[str], most: int) -> None:
        """Add at the end as many of the last lines as fit in `most` tokens, and the number of the others, as long as a heading."""
        items = [Item(section=Section.NOTES, text=line) for line in lines]
        room = min(self.room, most) - HEADING_TOKENS

        for _ in range(TRIES if lines else 0):
            fitting = newest_fitting(items, room, self.size)
            left = len(lines) - len(fitting)
            count = [f"{LEFT_OUT}{left:,} earlier constraints of the user)"] if left else []
            if self._take("\n".join([f"{self.text}\n", *count, *(item.text for item in fitting)])):
                return
            room = int(room * STEP)

    def _take(self, text: str) -> bool:
        """Take a text if it fits, and return whether it does."""
        tokens = self._measure(text) if text != self.text else self.tokens
        fits = text == self.text or (self.size(text) <= self.allowance and (self.most is None or tokens <= self.most))
        if fits:
            self.text, self.tokens = text, tokens
        return fits
