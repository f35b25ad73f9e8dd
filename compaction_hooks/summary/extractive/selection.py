"""The choice of items that a summary has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compaction_hooks.summary.extractive.outline import (
    BULLETS,
    CLOSE_REQUEST,
    OF_USER,
    OPEN_REQUEST,
    PARENTS,
    Item,
    Section,
)
from compaction_hooks.summary.extractive.text import ASCII_CHARS_PER_TOKEN, size


def select(items: Sequence[Item], max_size: float, shares: Mapping[Section, float]) -> list[Item]:
    """Return the items that fit, in the order of `items`.

    First those that must be chosen, then the most valuable of each section within its share, then the most valuable others, and
    identifiers in the room that is left: their share and more. An item whose text is part of a chosen one is not repeated, except
    requests; words of the user are only left out for other words of the user.

    Args:
        items: Identifiers last, best first. Those without value are not chosen, even if there is room.
        max_size: For the whole text, headings included, as `text.size` measures.
        shares: The part that a section may take in the first round of the room that identifiers leave.
    """
    names = next((at for at, item in enumerate(items) if item.section is Section.IDENTIFIERS), len(items))
    share = min(sum(len(item.text) + 2 for item in items[names:]) / ASCII_CHARS_PER_TOKEN, max_size * NAMES_SHARE)
    others = max_size - share
    budget = _Budget(max_size)
    worth = (index for index in range(names) if items[index].value > 0)
    order = sorted(worth, key=lambda index: (-items[index].value, -index))
    for index in order:
        if items[index].must:
            budget.take(index, items[index], max_size)
    budget.room -= share
    for index in order:
        budget.take(index, items[index], others * shares.get(items[index].section, 0.0))
    for index in order:
        budget.take(index, items[index], others)
    budget.room += share
    for index in range(names, len(items)):
        budget.take(index, items[index], max_size)
    return [items[index] for index in sorted(budget.chosen)]


NAMES_SHARE = 0.4
"""The part of a summary that is for identifiers."""


class _Budget:
    """The items chosen so far, and their cost."""

    def __init__(self, max_size: float) -> None:
        self.chosen: set[int] = set()
        self.room = max_size
        self._spent: dict[Section, float] = {}
        self._groups: set[tuple[Section, str]] = set()
        self._parents: set[str | None] = {None}
        self._text: str = ""
        self._text_of_user: str = ""

    def take(self, index: int, item: Item, section_limit: float) -> None:
        """Choose an item if it fits and says something new."""
        if index in self.chosen or len(item.text) > self.room * ASCII_CHARS_PER_TOKEN:
            return
        cost = self._cost(item)
        spent = self._spent.get(item.section, 0.0)
        if cost > self.room or spent + cost > section_limit:
            return
        # A request is always an item of its own, even one as short as "yes".
        is_users = item.section in OF_USER
        if item.section is not Section.GOAL and item.text in (self._text_of_user if is_users else self._text):
            return
        self.chosen.add(index)
        self.room -= cost
        self._spent[item.section] = spent + cost
        self._groups.add((item.section, item.group))
        self._parents.add(PARENTS.get(item.section))
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
        if item.section not in self._spent:
            parent = PARENTS.get(item.section)
            lead += item.section.value + "\n" + ("" if parent in self._parents else f"{parent}\n")
        return size(lead + item.text)
