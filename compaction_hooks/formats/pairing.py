"""Tool calls and results without an id of their own, as Gemini allows them: these answer by the tool's name and by order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from compaction_hooks.messages import Message, Part, ToolCall, ToolResult

MOST_SEARCHED: Final = 200
"""The most messages before a result in which its call is looked for by name: the results of a step follow it closely."""


def pair_all(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages of a conversation as `pair_by_name` does; the very sequence if all ids are the messages' own."""
    if not any(map(_is_named, (part for message in messages for part in message.parts))):
        return messages
    paired: list[Message] = []
    for message in messages:
        paired.append(pair_by_name(message, paired))
    return paired


def pair_by_name(message: Message, earlier: Sequence[Message]) -> Message:
    """Return a message whose results have the ids of the calls that they answer.

    If the result or the call has no id of its own, the result answers the oldest open call of its tool in the newest turn with one.

    Args:
        earlier: The messages before it, paired already; only the newest are searched.
    """
    waiting = [result for result in message.results if result.name]
    ids: dict[int, str] = {}

    for turn in _list_open_calls(earlier[-MOST_SEARCHED:]) if waiting else ():
        for answers in (_has_id_of, _answers_by_name):
            for result in [*waiting]:
                call = next((call for call in turn if answers(result, call)), None)
                if call is not None:
                    ids[id(result)] = call.id
                    turn.remove(call)
                    waiting.remove(result)
        if not waiting:
            break

    return _with_ids(message, ids)


def is_same_reading(paired: Message, read: Message) -> bool:
    """Return whether a paired message is this reading of it, which has other ids in place of those made of names at most."""
    both = zip(paired.results, read.results, strict=False)
    ids = {id(new): old.call_id for old, new in both if _is_by_name(new, old.call_id)}
    return paired == read or paired == _with_ids(read, ids)


def _with_ids(message: Message, ids: dict[int, str]) -> Message:
    """Return a message with other ids in the results that are named by the identity of their objects."""
    if not any(ids.get(id(result), result.call_id) != result.call_id for result in message.results):
        return message
    parts = [
        replace(part, call_id=ids[id(part)]) if isinstance(part, ToolResult) and id(part) in ids else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _has_id_of(result: ToolResult, call: ToolCall) -> bool:
    return result.call_id == call.id


def _answers_by_name(result: ToolResult, call: ToolCall) -> bool:
    return result.name == call.name and _is_by_name(result, call.id)


def _is_by_name(result: ToolResult, call_id: str) -> bool:
    return _is_made_of_name(result.call_id, result.name) or _is_made_of_name(call_id, result.name)


def _is_named(part: Part) -> bool:
    """Return whether a part is a call or a result without an id of its own."""
    if isinstance(part, ToolCall):
        return _is_made_of_name(part.id, part.name)
    return isinstance(part, ToolResult) and _is_made_of_name(part.call_id, part.name)


def _is_made_of_name(call_id: str, name: str) -> bool:
    """Return whether a format made this id of the tool's name, because the message has none."""
    return name != "" and (call_id == name or call_id.startswith(f"{name}#"))


def _list_open_calls(messages: Sequence[Message]) -> Iterator[list[ToolCall]]:
    """Yield the calls of each turn that no later result answers, the newest turn first."""
    answered = Counter[str]()
    turn: list[ToolCall] = []

    for message in reversed(messages):
        if message.role != "assistant" and turn:
            yield turn
            turn = []

        answered.update(result.call_id for result in message.results)
        for call in reversed(message.calls):
            if answered[call.id]:
                answered[call.id] -= 1
            else:
                turn.insert(0, call)

    if turn:
        yield turn
