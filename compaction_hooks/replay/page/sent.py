"""What a compaction sent of a conversation: the view of its call, as indexes and changed messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compaction_hooks.messages import Message
from compaction_hooks.replay.needs import text_of
from compaction_hooks.replay.page.shape import ChangedData, State, ViewData
from compaction_hooks.replay.page.source import Source, details_of, read_message
from compaction_hooks.replay.recorded import Fields
from compaction_hooks.replay.replayed import ReplayedCompaction

SAME_CHARS: Final = 20
"""A shortened text begins or ends with at least as many characters of the original; a marker has none of them."""


def read_view(of: Source, compaction: ReplayedCompaction) -> ViewData:
    """Return the view of the call that a compaction was made for."""
    sent: list[list[int] | ChangedData] = []
    for message, origin in zip(details_of(compaction).view, _find_origins(of, compaction), strict=True):
        if id(message) not in of.index_of:
            sent.append(_changed(of, message, origin, compaction.summary))
        elif sent and isinstance(last := sent[-1], list) and last[1] == origin:
            last[1] += 1
        else:
            index = of.index_of[id(message)]
            sent.append([index, index + 1])
    return {"call": compaction.call, "covered": compaction.summarized_messages, "sent": sent}


def _find_origins(of: Source, compaction: ReplayedCompaction) -> list[int | None]:
    """Return by message of a view the index of the message that it is, or is a copy of; None for a summary."""
    view, cut = details_of(compaction).view, compaction.summarized_messages
    end = of.replay.calls[compaction.call - 1].index
    found = [of.index_of.get(id(message)) for message in view]
    # The end of a view has a message for each one after the cut; before them are system messages, the summary and pins.
    head = len(view) - (end - cut)
    before = [
        _find_whole(of, of.session.format.read(message), compaction) if index is None else index
        for message, index in zip(view[:head], found[:head], strict=True)
    ]
    return [*before, *range(cut, end)]


def _find_whole(of: Source, pieces: Sequence[Message], compaction: ReplayedCompaction) -> int | None:
    """Return the index of the newest summarized message that has all parts of this one; None for a summary."""
    if text_of(pieces) == compaction.summary:
        return None
    parts = {part for piece in pieces for part in piece.parts}
    summarized = reversed(of.pieces[: compaction.summarized_messages])
    back = (n for n, whole in enumerate(summarized, 1) if parts <= {part for piece in whole for part in piece.parts})
    found = next(back, None)
    return None if found is None else compaction.summarized_messages - found


def _changed(of: Source, message: Fields, index: int | None, summary: str) -> ChangedData:
    pieces = of.session.format.read(message)
    state: State = "summary" if text_of(pieces) == summary else _state(of, pieces, index)
    return {"index": index, "state": state, "message": read_message(of, pieces)}


def _state(of: Source, pieces: Sequence[Message], index: int | None) -> State:
    if index is None:  # a pinned message that is shortened itself
        return "shortened"
    before, after = ([part.text for one in each for part in one.results] for each in (of.pieces[index], pieces))
    has_marker = any(
        not new.startswith(old[:SAME_CHARS]) and not new.endswith(old[-SAME_CHARS:])
        for old, new in zip(before, after, strict=False)
    )
    return "cleared" if has_marker else "shortened"


def sort_messages(of: Source, view: ViewData) -> dict[str, list[int]]:
    """Return the numbers of the messages from 1, by what was done to them; system messages are in none."""
    states = dict[int, str]()
    for entry in view["sent"]:
        if isinstance(entry, list):
            states.update((index, "pinned" if index < view["covered"] else "as_is") for index in range(*entry))
        elif entry["index"] is not None:
            states[entry["index"]] = entry["state"]

    found: dict[str, list[int]] = {"summarized": [], "pinned": [], "as_is": [], "cleared": [], "shortened": []}
    for index in range(of.replay.calls[view["call"] - 1].index):
        if index not in of.systems:
            found[states.get(index, "summarized")].append(index + 1)

    return found
