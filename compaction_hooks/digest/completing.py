"""What a text lacks or contradicts, whoever wrote it, is put back word for word, as far as there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Protocol

from compaction_hooks.digest.outline import (
    HEADING_TOKENS,
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
    newest_fitting,
    render,
)
from compaction_hooks.digest.reading import Facts
from compaction_hooks.digest.writing import choose, write
from compaction_hooks.history.history import UserWords
from compaction_hooks.tokens.budget import IDENTIFIER_TOKENS, SMALL_SUMMARY_TOKENS
from compaction_hooks.view.texts import RECALL_TOOL

CONSTRAINTS_RATIO, SMALL_RATIO = 0.5, 0.4
"""The part of a summary that constraints of the user may take which it lacks; beyond it the newest are put back. The second holds
below `SMALL_SUMMARY_TOKENS`: with half of 400 tokens for constraints, a fifth of the user's facts was left, else half and more."""
OUR_SECTIONS = {Section.GOAL, Section.DONE, Section.IN_PROGRESS, Section.BLOCKED}
"""The sections that our prompt asks for and code can fill, if a text has neither heading nor items."""
FILLED = {
    Section.GOAL,
    Section.DONE,
    Section.STATE,
    Section.USER_FACTS,
    Section.ASSISTANT_FACTS,
    Section.REPLIES,
}
"""The sections that are filled in any case, with identifiers: others would repeat the model's own words of an earlier summary."""
TRIES, STEP = 6, 0.85
"""Choices of items, whose sizes are estimates, for the room that is left, and the part of the room that each leaves to the next."""


class WrittenSummary(Protocol):
    """A summary that someone wrote.

    Attributes:
        is_by_rule: Whether code chose it.
        asks_for_headings: Whether it was asked for with our headings.
        has_form: Whether the host gave the form.
    """

    @property
    def text(self) -> str: ...
    @property
    def is_by_rule(self) -> bool: ...
    @property
    def asks_for_headings(self) -> bool: ...
    @property
    def has_form(self) -> bool: ...


class Room(Protocol):
    """The place of a summary in a view, and what the conversation tells beyond the messages that it covers.

    Attributes:
        allowance: The most tokens of the summary alone.
        identifier_tokens: The most tokens of identifiers that are added; None: all that is left, or a few in a form of its own.
        tags: The file lists that follow it.
        has_recall: Whether the recall tool finds the messages that the summary covers.
    """

    @property
    def allowance(self) -> int: ...
    @property
    def identifier_tokens(self) -> int | None: ...
    @property
    def tags(self) -> str: ...
    @property
    def has_recall(self) -> bool: ...

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

    def find_words(self) -> Sequence[UserWords]:
        """Return the words that a summary must keep of each message of the user, oldest first."""
        ...


def complete(written: WrittenSummary, facts: Facts, room: Room) -> str:
    """Return a summary with the facts that it lacks, word for word, as far as there is room.

    They are, in this order: constraints of the user; lines that name the user's images and documents; sections
    that our prompt asked for; and the identifiers most likely needed next. A summary made by rule lacks what comes from the user
    at most.

    Args:
        facts: Those of the messages that the summary covers.
    """
    text, words = written.text, room.find_words()
    constraints = [*dict.fromkeys(limit for spoken in words for limit in spoken.constraints)]
    lines = [*dict.fromkeys(line for spoken in words for line in spoken.media)]
    media = _lacking(text, lines, Section.USER_FACTS)
    if written.is_by_rule and not media and not _lacking(text, constraints, Section.CONSTRAINTS):
        return text

    repair = _Repair(text, room.message_size, room.size, room.allowance)
    most_of_words, most = room.find_limits(repair.tokens, HEADING_TOKENS)

    repair.most = most_of_words  # none, or no smaller one than that of the other facts
    _add_constraints(repair, constraints, has_recall=room.has_recall)
    repair.add(lambda tokens: newest_fitting(media, tokens, room.size))
    if written.is_by_rule:
        return repair.text

    repair.most = most
    _fill(repair, written, facts, room)
    return repair.text


def _lacking(text: str, quotes: Iterable[str], section: Section) -> list[Item]:
    """Return items for the words that a text lacks, however it breaks its lines."""
    plain = " ".join(text.split())
    items = [Item(section, words) for words in quotes if "<" in words or words not in plain]
    return [item for item in items if "<" not in item.text or as_data(item).text not in plain]


def _add_constraints(repair: _Repair, constraints: Sequence[str], *, has_recall: bool) -> None:
    """Add the user's constraints that a text lacks, the newest if not all fit, and a line that counts the others.

    A text that is too large for them is written anew, by rule: the user's words go before those of a writer.
    """
    size, allowance = repair.size, repair.allowance
    most = int(allowance * (SMALL_RATIO if allowance < SMALL_SUMMARY_TOKENS else CONSTRAINTS_RATIO))
    lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)
    if newest_fitting(lacking, repair.room, size) != lacking:
        items = newest_fitting(_lacking("", constraints, Section.CONSTRAINTS), most, size)
        taken = sum(size(item.text) + LINE_TOKENS for item in items) + 4 * HEADING_TOKENS
        repair.take(write(Facts((), repair.text), min(allowance - taken, size(repair.text))))
        lacking = _lacking(repair.text, constraints, Section.CONSTRAINTS)

    added = repair.add(lambda room: newest_fitting(lacking, min(room - HEADING_TOKENS, most), size))
    if left := len(lacking) - len(added):
        ending = f"; the {RECALL_TOOL} tool finds them" if has_recall else ""
        line = Item(
            Section.NOTES, f"{LEFT_OUT}{left:,} earlier constraint{'s' if left > 1 else ''} of the user{ending})"
        )
        repair.add(lambda _: [line])


def _fill(repair: _Repair, written: WrittenSummary, facts: Facts, room: Room) -> None:
    """Fill the sections that our prompt asked for, and add the identifiers most likely needed next.

    A text without our headings gets only these. In a conversation without tools, the user's facts take their place.
    """
    sections: Set[Section] = set()
    identifier_tokens, headed = room.identifier_tokens, headed_sections(written.text)
    if written.asks_for_headings or (headed - {Section.NOTES} and not written.has_form):
        sections = (OUR_SECTIONS - headed) | (FILLED if identifier_tokens is None else set())
    elif identifier_tokens is None:
        identifier_tokens = IDENTIFIER_TOKENS
    if not sections and identifier_tokens == 0:
        return

    ranked = facts.rank_items(room.allowance, room.size)
    lacking = {section: ranked[section] for section in sections - {Section.GOAL}}
    if Section.GOAL in sections:
        asked = [item._replace(section=Section.ASKED) for section in REQUESTS for item in ranked[section]]
        lacking[Section.ASKED] = [item for item in asked if item.text not in repair.text]

    # In a conversation without tools facts are in place of identifiers.
    listed = Section.USER_FACTS if facts.is_chat and not written.has_form else Section.IDENTIFIERS
    text = room.tags + repair.text
    names = [item for item in ranked[listed] if item.text not in text]
    lacking[listed] = names if identifier_tokens is None else first_fitting(names, identifier_tokens, room.size)
    repair.add(lambda tokens: choose(lacking, tokens, tokens, room.size, text))
    if identifier_tokens is None:  # sizes of lines are estimates: they leave some room
        left = [item for item in names if item.text not in repair.text]
        repair.add(lambda tokens: first_fitting(left, tokens, room.size))


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
        self._measure, self.size, self.allowance = measure, size, allowance
        self.take(text)

    @property
    def room(self) -> int:
        """The tokens that the text leaves for lines under a new heading."""
        room = self.allowance - self.size(self.text)
        return min(room, room if self.most is None else self.most - self.tokens) - HEADING_TOKENS

    def take(self, text: str) -> None:
        """Take another text in place of the one so far."""
        self.text, self.tokens = text, self._measure(text)

    def add(self, choose: Callable[[int], list[Item]]) -> list[Item]:
        """Add the items that are chosen for the room that is left, and return them; if they do not fit, those for a smaller one."""
        room = self.room
        for _ in range(TRIES):
            items = choose(room)
            if not items:
                break

            text = self._text_with([*map(as_data, items)])
            tokens = self._measure(text)
            if self.size(text) <= self.allowance and (self.most is None or tokens <= self.most):
                self.text, self.tokens = text, tokens
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
