"""What hosts do to a list beside appending to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from compaction_hooks.messages import M
from compaction_hooks.testing.texts import Choose

ChatMessage = Mapping[str, object]
Edit = Callable[[Choose, Sequence[M], M], list[M]]
"""Makes another list of one: what is not edited are the same objects. The third argument is a message nobody has said yet."""


def rewound(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Go back to an earlier place and say something else there."""
    return [*messages[: len(messages) - choose(len(messages) + 1)], new]


def cut_back(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Go back to an earlier place."""
    return list(messages[: len(messages) - choose(len(messages) + 1)])


def deleted(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Take one message out, wherever it stands."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *messages[place + 1 :]]


def inserted(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Put a message in, wherever."""
    place = choose(len(messages) + 1)
    return [*messages[:place], new, *messages[place:]]


def replaced(choose: Choose, messages: Sequence[M], new: M) -> list[M]:
    """Put another message in one's place."""
    place = choose(len(messages) or 1)
    return [*messages[:place], new, *messages[place + 1 :]]


def pruned(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Drop the oldest messages, but for the first, which may be the system prompt."""
    keeps_first = choose(2)
    return [*messages[:keeps_first], *messages[max(choose(len(messages) or 1), keeps_first) :]]


def recreated(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Make equal objects anew, from some place on."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *copy.deepcopy(list(messages[place:]))]


def doubled(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Say an earlier message once more, with the very same object."""
    return [*messages, messages[choose(len(messages))]] if messages else []


def swapped(choose: Choose, messages: Sequence[M], _: M) -> list[M]:
    """Let two neighbours change places."""
    place = choose(len(messages) or 1)
    return [*messages[:place], *reversed(messages[place : place + 2]), *messages[place + 2 :]]


EDITS: Final = (rewound, cut_back, deleted, inserted, replaced, pruned, recreated, doubled, swapped)
"""Every edit of a list of any kind of messages."""


def through_json(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return plain messages as they come back from a file, or from another machine."""
    return cast("list[ChatMessage]", json.loads(json.dumps(messages)))
