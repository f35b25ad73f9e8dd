"""Pinned messages, and the messages that a call or result cannot be shown without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import is_only_reasoning
from compaction_hooks.messages import M
from compaction_hooks.view.record import Pin


def pin_pieces(history: History[M], pins: Iterable[Pin], cut: int) -> list[int]:
    """Return the indexes of the pieces before `cut` that the pins name, in order. Pins whose message is gone are skipped.

    The calls and results without which a pinned one cannot be shown stay with it: another format may cut a step into other
    messages, whose digests no pin names.
    """
    found: set[int] = set()
    for pin in pins:
        within = history.run_pieces(pin.run) if pin.run >= history.base else range(history.run_start(history.base))
        matches = [i for i in within if i < cut and pin.digest == message_digest(history.piece(i).message)]
        found.update(i for match in matches[-1:] for i in whole_step(history, match) if i < cut)
    return sorted(found)


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
    """Yield the pieces that hold the calls this piece answers, and the results of the calls it makes; the nearest of each id.

    And the other items of an answer with an item of reasoning: OpenAI refuses these apart.
    """
    message = history.piece(index).message
    yield from _answer_items(history, index)
    wanted = {result.call_id for result in message.results}
    other = index
    while wanted and other:
        other -= 1
        if found := wanted & {call.id for call in history.piece(other).message.calls}:
            yield other
            wanted -= found
    open_calls = {call.id for call in message.calls}
    other = index + 1
    while open_calls and other < history.piece_count:
        if found := open_calls & {result.call_id for result in history.piece(other).message.results}:
            yield other
            open_calls -= found
        other += 1


def _answer_items(history: History[M], index: int) -> list[int]:
    run = history.run_of(index)
    if run < history.base or history.run_side(run) != "assistant":
        return []
    items = [item for item in history.run_pieces(run) if history.piece(item).message.role == "assistant"]
    return items if any(is_only_reasoning(history.piece(item).message) for item in items) else []
