"""A summary by rule: deterministic, no model, no network. It chooses among the facts, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compaction_hooks.digest.outline import (
    BULLETS,
    CLOSE_REQUEST,
    OF_USER,
    OPEN_REQUEST,
    PARENTS,
    REQUESTS,
    Item,
    Section,
    as_data,
    items_under,
    render,
)
from compaction_hooks.digest.reading import FULL, Facts
from compaction_hooks.digest.steps import make_omitted_line
from compaction_hooks.digest.text import ASCII_CHARS_PER_TOKEN, size
from compaction_hooks.digest.told import names_item
from compaction_hooks.files import remove_file_tags
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.tokens.estimator import CharacterEstimator, TokenEstimator

RESERVED: Mapping[Section, float] = {Section.CONSTRAINTS: 0.5, Section.STATE: 0.3, Section.CAUSES: 0.095}
"""The part of a summary that a section has, before others have theirs, and no more: without it, what was found out, and where the
work stands, are left out as soon as there are many steps; and of a summary without constraints, much has to go when they are put
back. `size` counts more than an estimator does: causes are at most 8 % of the tokens."""
REPEATED = {*REQUESTS, Section.CAUSES}
"""Sections whose items are chosen even if others contain them: a request, even one as short as "yes"; and what was found out, which
the line of where the work stands has for one round."""
FOCUS_FACTOR = 4.0
"""Factor for an item that mentions the caller's focus."""
TRIES, MOST_TRIES = 6, 20
"""Choices after which each leaves a fifth less room, and the most choices: the line of the steps left out grows as others go."""


def write(facts: Facts, max_tokens: int, *, focus: str | None = None, estimator: TokenEstimator | None = None) -> str:
    """Return a summary made without a model, which replaces the previous one."""
    estimator = estimator or CharacterEstimator()
    names = names_item(remove_file_tags(facts.previous_summary or ""), facts.earlier, max_tokens)
    items = _weigh_by_focus(map(as_data, names + facts.list_items(max_tokens)), focus or "")
    text = _write_fitting(items, facts, max_tokens, estimator)

    if not text and facts.kept:  # an empty summary is refused: rather repeat kept messages
        return write(Facts(facts.messages, facts.previous_summary), max_tokens, focus=focus, estimator=estimator)
    return text


def _write_fitting(items: Sequence[Item], facts: Facts, max_tokens: int, estimator: TokenEstimator) -> str:
    """Return the items that fit, as text."""
    best, line = "", ""
    room = float(max_tokens)
    for attempt in range(MOST_TRIES):
        chosen = select(items, room - size(line), facts.shares)
        kept = {id(item) for item in chosen}
        dropped = [item for item in items_under(items, Section.DONE, Section.BLOCKED) if id(item) not in kept]
        line = make_omitted_line(dropped, items_under(facts.told, Section.DONE))
        if line:
            chosen.insert(0, Item(section=Section.DONE, text=line))
        text = neutralize(render(chosen))

        tokens = estimator.estimate_tokens(text)
        if tokens <= max_tokens:
            best = max(best, text, key=len)
            if attempt or tokens > FULL * max_tokens:
                break

        # `size` is rough: scale the room by the error of the last try.
        factor = 0.98 * max_tokens / max(tokens, 1)
        room *= factor if attempt + 1 < TRIES else min(factor, 0.8)
    return best


def _weigh_by_focus(items: Iterable[Item], focus: str) -> list[Item]:
    """Return the items, with a higher value for those that share a longer word with the focus."""
    words = [word for word in focus.casefold().split() if len(word) > 3 or not word.isascii()]
    return [
        item._replace(value=item.value * FOCUS_FACTOR) if any(word in item.text.casefold() for word in words) else item
        for item in items
    ]


# -- the choice


def select(items: Sequence[Item], max_size: float, shares: Mapping[Section, float]) -> list[Item]:
    """Return the items that fit, in the order of `items`.

    First those that must be chosen and those of reserved sections, then the most valuable of each section within its share, then
    the most valuable others, and identifiers as far as their share reaches. An item whose text is part of a chosen one is not
    repeated, except those of `REPEATED`; words of the user are only left out for other words of the user.

    Args:
        items: Identifiers last, best first. Those without value are not chosen, even if there is room.
        max_size: For the whole text, headings included, as `text.size` measures.
        shares: The part that a section may take in the first round of the room that identifiers leave.
    """
    names = next((at for at, item in enumerate(items) if item.section is Section.IDENTIFIERS), len(items))
    budget = _Budget(max_size)
    order = sorted(
        (index for index in range(names) if items[index].value > 0), key=lambda index: (-items[index].value, -index)
    )

    for index in order:
        budget.take(index, items[index], max_size * RESERVED.get(items[index].section, items[index].must))

    listed = NAMES_SHARE * (max_size - budget.spent.get(Section.CONSTRAINTS, 0.0))
    share = min(sum(len(item.text) + 2 for item in items[names:]) / ASCII_CHARS_PER_TOKEN, listed)
    others = max_size - share
    budget.room -= share

    for index in order:
        budget.take(index, items[index], others * shares.get(items[index].section, 0.0))
    for index in order:
        budget.take(index, items[index], others * RESERVED.get(items[index].section, 1.0))

    budget.room += share
    for index in range(names, len(items)):
        budget.take(index, items[index], max_size if items[index].value >= SURE_VALUE else listed)
    return [items[index] for index in sorted(budget.chosen)]


NAMES_SHARE = 0.3
"""The part of a summary, next to constraints, that is for identifiers. With a fifth less at 64,000 tokens, recorded summaries had
67 % of the names that the next steps needed, for 81."""
SURE_VALUE = 1.7
"""Identifiers of this value, which the user named just now, take any room that is left."""


class _Budget:
    """The items chosen so far, and their cost."""

    def __init__(self, max_size: float) -> None:
        self.chosen: set[int] = set()
        self.room = max_size
        self.spent: dict[Section, float] = {}
        self._groups: set[tuple[Section, str]] = set()
        self._text: str = ""
        self._text_of_user: str = ""

    def take(self, index: int, item: Item, section_limit: float) -> None:
        """Choose an item if it fits and says something new."""
        if index in self.chosen or len(item.text) > self.room * ASCII_CHARS_PER_TOKEN:
            return

        cost = self._cost(item)
        spent = self.spent.get(item.section, 0.0)
        if cost > self.room or spent + cost > section_limit:
            return

        is_users = item.section in OF_USER
        if item.section not in REPEATED and item.text in (self._text_of_user if is_users else self._text):
            return

        self.chosen.add(index)
        self.room -= cost
        self.spent[item.section] = spent + cost
        self._groups.add((item.section, item.group))
        self._text += item.text + "\n"
        self._text_of_user += item.text + "\n" if is_users else ""

    def _cost(self, item: Item) -> float:
        """Return the size of an item with the bullet, the key and the headings that it adds."""
        if item.group and (item.section, item.group) in self._groups:
            return size(", " + item.text)

        lead = BULLETS.get(item.section, "- ") + "\n"
        if item.section is Section.IDENTIFIERS:
            lead += item.group + ": "
        if "\n" in item.text:
            lead = OPEN_REQUEST + CLOSE_REQUEST + "\n"

        if item.section not in self.spent:
            parent = PARENTS.get(item.section)
            is_above = parent is None or parent in map(PARENTS.get, self.spent)
            lead += item.section.value + "\n" + ("" if is_above else f"{parent}\n")
        return size(lead + item.text)
