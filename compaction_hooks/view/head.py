"""The beginning of a view: the messages that stay from before the cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import answered_ids, call_ids, is_only_reasoning
from compaction_hooks.messages import M, Message, Opaque
from compaction_hooks.view.record import Pin


class Head(NamedTuple):
    """The beginning of a view.

    Attributes:
        cut: The first piece after the covered ones; 0 if none are covered.
        rendered: The text of the summary; "" if there is none.
        pins: Messages before the cut that stay.
    """

    cut: int = 0
    rendered: str = ""
    pins: tuple[Pin, ...] = ()


def covered_pieces(history: History[Any], runs: int) -> int:
    """Return how many pieces of the list are before this run; 0 if the summary at the head of the list covers it."""
    return history.run_start(runs) if runs > history.runs_before_list else 0


def pin_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> Sequence[int]:
    """Return the indexes of the pieces before `cut` that the pins name, in order. Pins whose message is gone are skipped.

    The calls and results without which a pinned one cannot be shown stay with it: another format may cut a step into other
    messages, whose digests no pin names. They are found once: most views of a list have the pins of the one before.
    """
    pins = tuple(pins)
    if not pins:
        return ()
    known = history.log.staying
    if known[:2] != (pins, cut):
        known = history.log.staying = pins, cut, tuple(sorted(_find_pieces(history, pins, cut)))
    return known[2]


def _find_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> set[int]:
    pieces: set[int] = set()
    named: dict[range, dict[str, int]] = {}  # of equal messages the last
    for pin in pins:
        within = _find_run_pieces(history, pin.run)
        if within not in named:
            named[within] = {message_digest(history.piece(i).message): i for i in within if i < cut}
        match = next((named[within][digest] for digest in pin.digests if digest in named[within]), None)
        if match is not None:
            pieces.update(i for i in whole_step(history, match) if i < cut)
    return pieces


def _find_run_pieces(history: History[M], run: int) -> range:
    """Return the pieces of a run; of one before the list all pieces before its first run: the pins of a stored view are there."""
    if run >= history.runs_before_list:
        return history.run_pieces(run)
    return range(history.run_start(history.runs_before_list))


def whole_step(history: History[M], index: int) -> set[int]:
    """Return a piece with all tool calls and results that belong to it, directly or through others.

    One message may answer the calls of several messages (Anthropic's results of a step that was split).
    """
    step, waiting = {index}, [index]
    while waiting:
        fresh = {partner for partner in _partners(history, waiting.pop()) if partner not in step}
        step |= fresh
        waiting.extend(fresh)
    return step


def _partners(history: History[M], index: int) -> Iterator[int]:
    """Yield the pieces that hold the calls this piece answers, and the answers to the calls it makes; the nearest of each id.

    And the other items of an answer with an item of reasoning: OpenAI refuses these apart.
    """
    message = history.piece(index).message
    yield from _search_before(history, index)
    yield from _answer_items(history, index)
    yield from _nearest(history, answered_ids(message), reversed(range(index)), call_ids)
    yield from _nearest(history, call_ids(message), range(index + 1, history.piece_count), answered_ids)


def _nearest(
    history: History[M], wanted: Set[str], pieces: Iterable[int], read: Callable[[Message], Set[str]]
) -> Iterator[int]:
    """Yield the first pieces that have these ids, each of them once."""
    for index in pieces if wanted else ():
        if ids := wanted & read(history.piece(index).message):
            yield index
            wanted -= ids
            if not wanted:
                return


def _answer_items(history: History[M], index: int) -> list[int]:
    run = history.run_of(index)
    if run >= history.runs_before_list and history.run_side(run) != "assistant":
        return []

    items = [item for item in _find_run_pieces(history, run) if history.piece(item).message.role == "assistant"]
    return items if any(is_only_reasoning(history.piece(item).message) for item in items) else []


def _search_before(history: History[M], index: int) -> Iterator[int]:
    """Yield the piece with the search that found the tools in this one: what OpenAI searches itself has no id."""
    for piece, kind in ((index, "tool_search_output"), (index - 1, "tool_search_call")):
        parts = history.piece(piece).message.parts if piece >= 0 else ()
        if not any(isinstance(part, Opaque) and part.kind == kind for part in parts):
            return
    yield index - 1
