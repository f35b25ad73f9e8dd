"""A summary by rule: deterministic, no model, no network. Each section has a share of the room, and the newest steps have the rest.

A language model judged what a text of a given size is worth to the agent's next steps: names up to a cap, what the assistant said
last, and the newest calls with the beginning of their results; more of any one of these bought nothing (docs/judged.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from compaction_hooks.digest.outline import (
    BULLETS,
    HEADING_TOKENS,
    LINE_TOKENS,
    OF_USER,
    REQUESTS,
    Item,
    Section,
    Size,
    render,
)
from compaction_hooks.digest.reading import Facts
from compaction_hooks.digest.steps import REFUSED
from compaction_hooks.digest.text import CHARS_PER_TOKEN
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.tokens.estimator import CharacterEstimator, TokenEstimator

SHARES: Mapping[Section, float] = {
    Section.PRESENT: 0.36,
    Section.GOAL: 0.36,
    Section.ASKED: 0.36,
    Section.CONSTRAINTS: 0.5,
    Section.REPLIES: 0.07,
    Section.BLOCKED: 0.1,
    Section.IN_PROGRESS: 0.1,
    Section.STATE: 0.3,
    Section.NOTES: 0.2,
    Section.USER_FACTS: 0.5,
    Section.ASSISTANT_FACTS: 0.3,
}
"""The part of a summary that a section may take, in the order in which sections choose; steps and identifiers have the rest."""
REFUSALS_SHARE = 0.25
"""The part of a summary that steps may take before all else if the user's words are in their results: of refused calls."""
NAMES_SHARE = 0.3
"""The part of a summary that is for identifiers."""
LEAST_TOKENS = 50
"""A section may take so many tokens, however small the text: its heading and one line."""
MOST_MISSES = 20
"""A section chooses no more behind so many items that did not fit."""
FULL = 0.85
"""A summary that takes this part of its allowance is full: a smaller one is made anew, with more of the user's requests."""
TRIES = 8
"""The most choices: sizes of lines are estimates, and each choice leaves less room."""


def write(facts: Facts, max_tokens: int, *, focus: str | None = None, estimator: TokenEstimator | None = None) -> str:
    """Return a summary made without a model, which replaces the previous one."""
    size = (estimator or CharacterEstimator()).estimate_tokens
    text = _write(facts, max_tokens, focus or "", size)
    spare = int(max_tokens * FULL) - size(text)
    if spare > 0:
        text = _write(facts, max_tokens, focus or "", size, spare)

    if not text and facts.kept:  # an empty summary is refused: rather repeat kept messages
        return write(Facts(facts.messages, facts.previous_summary), max_tokens, focus=focus, estimator=estimator)
    return text


def _write(facts: Facts, max_tokens: int, focus: str, size: Size, spare: int = 0) -> str:
    """Return the items that fit, as text; empty if none does."""
    ranked = _by_focus(facts.rank_items(max_tokens, size, spare), focus)
    room = float(max_tokens)
    for _ in range(TRIES):
        text = neutralize(render(choose(ranked, max_tokens, room, size)))
        tokens = size(text)
        if not text or tokens <= max_tokens:
            return text
        room *= 0.97 * max_tokens / tokens
    return ""


def choose(
    ranked: Mapping[Section, Sequence[Item]], max_tokens: float, room: float, size: Size, text: str = ""
) -> list[Item]:
    """Return the items that fit, in the order of a text.

    Each section chooses within its share; then the steps, and then all others, have what is left. What a text has already is not
    repeated; words of the user only count as said where the user says them.

    Args:
        ranked: By section, its items, the best first.
        max_tokens: The size of the whole text, of which sections have their shares.
        room: The tokens that are left for these items, headings included.
        text: The text that they are added to.
    """
    choice = _Choice(room, size, text)
    steps = ranked.get(Section.DONE, ())
    choice.take(takewhile(lambda step: REFUSED in step.text, steps), max_tokens * REFUSALS_SHARE)
    for section, share in SHARES.items():
        most = max_tokens if section in REQUESTS else max(max_tokens * share, LEAST_TOKENS)
        choice.take(ranked.get(section, ()), most)

    names = ranked.get(Section.IDENTIFIERS, ())  # chosen behind the steps, which name some of them
    for_names = min(max_tokens * NAMES_SHARE, sum(len(item.text) for item in names) / CHARS_PER_TOKEN)
    choice.take(steps, choice.room - for_names)
    choice.take(names, for_names + HEADING_TOKENS)
    for section in (Section.DONE, *SHARES, Section.IDENTIFIERS):
        choice.take(ranked.get(section, ()), room)
    return sorted(choice.chosen, key=lambda item: item.place)


class _Choice:
    """The items chosen so far, and the tokens that are left."""

    def __init__(self, room: float, size: Size, text: str) -> None:
        self.chosen: dict[Item, None] = {}
        self.room = room
        self._size, self._text, self._text_of_user = size, text, text
        self._spent: dict[Section, float] = {}
        self._lines: set[tuple[Section, str]] = set()

    def take(self, items: Iterable[Item], most: float) -> None:
        """Choose the items of a section that fit and say something new."""
        misses = 0
        for item in items:
            if item in self.chosen or self._has(item):
                continue
            spent = self._spent.get(item.section, 0.0)
            cost = self._cost(item) + (0 if item.section in self._spent else HEADING_TOKENS)
            if cost > min(self.room, most - spent):
                misses += 1
                if misses == MOST_MISSES:
                    break
                continue

            self.chosen[item] = None
            self.room -= cost
            self._spent[item.section] = spent + cost
            self._lines.add((item.section, item.group))
            self._text += f"{item.text}\n"
            self._text_of_user += f"{item.text}\n" if item.section in OF_USER else ""

    def _has(self, item: Item) -> bool:
        """Whether the text says an item; a request, even one as short as "yes", is no part of another."""
        return item.section not in REQUESTS and item.text in (
            self._text_of_user if item.section in OF_USER else self._text
        )

    def _cost(self, item: Item) -> float:
        if item.group and (item.section, item.group) in self._lines:
            return self._size(f", {item.text}")
        return self._size(f"{BULLETS.get(item.section, '- ')}{item.group}: {item.text}") + LINE_TOKENS


def _by_focus(ranked: Mapping[Section, Sequence[Item]], focus: str) -> Mapping[Section, Sequence[Item]]:
    """Return the items with those first that share a longer word with the focus."""
    words = [word for word in focus.casefold().split() if len(word) > 3 or not word.isascii()]
    if not words:
        return ranked

    def is_other(item: Item) -> bool:
        text = item.text.casefold()
        return not any(word in text for word in words)

    return {section: sorted(items, key=is_other) for section, items in ranked.items()}
