"""The lines of an earlier summary by another writer, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compaction_hooks.summary.extractive.identifiers import Mentions
from compaction_hooks.summary.extractive.outline import Item, Section
from compaction_hooks.summary.extractive.text import one_line, size

NOTE_CHARS = 400
"""The most characters of one line of a summary by another writer."""
NAMES_SHARE = 0.2
"""The most of a summary that the line of names takes."""
_NAMES = "names: "


def names_item(summary: str, items: Iterable[Item], max_tokens: int) -> list[Item]:
    """Return an item of the names in the notes of an earlier summary, as far as they fit their share; none without names.

    Another writer chose these names for the little room there was. Of a summary of ours, only this item comes back: its other
    notes are from messages.

    Args:
        items: Those of the summary.
        max_tokens: The size of the new summary.
    """
    notes = [item.text for item in items if item.section is Section.NOTES]
    if Section.NOTES in summary:
        notes = [text for text in notes if text.startswith(_NAMES)]
    mentions, names = Mentions(), dict[str, None]()
    for text in notes:
        names.update(dict.fromkeys(sorted(mentions.find_words(text), key=text.find)))
    line = ""
    for name in names:
        longer = f"{line}, {name}" if line else _NAMES + name
        line = longer if size(longer) <= max_tokens * NAMES_SHARE else line
    return [Item(section=Section.NOTES, text=line, must=True)] if line else []


def note_items(notes: Iterable[Item]) -> list[Item]:
    """Return notes on one line each. The first is worth most: other writers begin with the most important points."""
    told: Sequence[Item] = [item for item in notes if not item.text.startswith(_NAMES)]
    return [
        replace(item, text=one_line(item.text, NOTE_CHARS), value=2.0 - index / len(told))
        for index, item in enumerate(told)
    ]
