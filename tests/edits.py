"""Edits that hosts make to a list, other than appending."""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Final, cast

from compaction_hooks.messages import M
from compaction_hooks.testing.hosts import ChatMessage
from compaction_hooks.testing.texts import Choose

Edit = Callable[[Choose, Sequence[M], M], list[M]]
"""Returns an edited list with the same objects, except the edited ones. The third argument is a new message."""


def rewind(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Go back to an earlier message and continue with a new one."""
    return [*messages[: len(messages) - choose(len(messages) + 1)], new]


def truncate(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Go back to an earlier message."""
    return list(messages[: len(messages) - choose(len(messages) + 1)])


def delete(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Delete one message."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *messages[place + 1 :]]


def insert(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Insert a message."""
    place = choose(len(messages) + 1)
    return [*messages[:place], new, *messages[place:]]


def replace(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Replace a message."""
    place = choose(len(messages) or 1)
    return [*messages[:place], new, *messages[place + 1 :]]


def prune(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Drop the oldest messages, with or without the first, which may be the system prompt."""
    keeps_first = choose(2)
    return [*messages[:keeps_first], *messages[max(choose(len(messages) or 1), keeps_first) :]]


def recreate(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Copy all messages from one on, so that they are equal but other objects."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *copy.deepcopy(list(messages[place:]))]


def repeat(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Append an earlier message again, as the same object."""
    return [*messages, messages[choose(len(messages))]] if messages else []


def swap(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Swap two neighbors."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *reversed(messages[place : place + 2]), *messages[place + 2 :]]


EDITS: Final = (rewind, truncate, delete, insert, replace, prune, recreate, repeat, swap)
"""All edits, for messages of any kind."""


def through_json(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return plain messages after a round trip through JSON."""
    return cast("list[ChatMessage]", json.loads(json.dumps(messages)))
