"""How a conversation is read when hosts rewind and redo, write into messages, report late, and close."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    Scripted,
    controller,
    elsewhere,
    prose,
    steps,
    system,
    user,
)


def compacted(messages: list[Chat], keep: int = 500) -> Controller:
    """A controller that was told to compact this list, in a window that is large enough for all of it."""
    hooks = controller(200_000, summarizer=Scripted(), settings=PLAIN)
    hooks.transform_context_sync(messages)
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    return hooks


# -- rewound, and forward again


@pytest.mark.parametrize("kept", range(34, 44))
def test_results_said_again_after_a_rewind_are_shown_as_small_as_before(kept: int) -> None:
    """A record that clears results clears those, too, that the list did not hold when it was first applied again."""
    hooks = controller(8_192, summarizer=Scripted())
    messages = [system(), user("go"), *steps(24, 300)]
    view = hooks.transform_context_sync(messages)
    assert view is not messages
    hooks.transform_context_sync(messages[:kept])
    assert hooks.transform_context_sync(messages) == elsewhere(hooks, messages)


# -- written into


def test_an_answer_that_was_just_covered_is_still_watched() -> None:
    answer: dict[str, Any] = {"role": "assistant", "content": f"The answer: {prose(300)}"}
    messages = [system(), user("go"), *steps(20, 100), user("hm"), answer, user(f"And now? {prose(200)}")]
    hooks = compacted(messages, keep=10)
    assert answer not in hooks.transform_context_sync(messages)
    answer["content"] = "Something else."
    assert answer in hooks.transform_context_sync(messages)


def test_a_view_that_the_host_fills_with_its_own_list_is_no_view() -> None:
    messages = [system(), user("go"), *steps(20, 100)]
    hooks = compacted(messages)
    buffer = hooks.transform_context_sync(messages)
    hooks.transform_context_sync(messages)
    buffer = hooks.transform_context_sync(messages)
    buffer[:] = messages
    assert len(hooks.transform_context_sync(buffer)) < len(messages)


# -- trouble in the middle


@pytest.mark.parametrize("place", range(4))
def test_a_message_that_cannot_be_read_leaves_nothing_behind(place: int) -> None:
    messages = [system(), user("go"), *steps(30, 100)]
    hooks = compacted(messages)
    hooks.transform_context_sync(messages)
    new = steps(2, 100, first=100)
    broken: list[Chat] = [*messages, *new[:place], {"content": "no role"}, *new[place:]]
    for _ in range(2):
        with pytest.raises(FormatError):
            hooks.transform_context_sync(broken)
    other = [*messages, *steps(3, 100, first=200)]
    assert hooks.transform_context_sync(other) == elsewhere(hooks, other)
    assert hooks.transform_context_sync([*messages, *new]) == elsewhere(hooks, [*messages, *new])


class Interrupting(OpenAIChatFormat):
    """Is interrupted at a certain reading."""

    left = -1

    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().read(message)


@pytest.mark.parametrize("reading", range(1, 12))
def test_an_interrupted_call_leaves_nothing_behind(reading: int) -> None:
    format = Interrupting()
    hooks: Controller = CompactionController(context_window=8_192, format=format, summarizer=Scripted(), settings=PLAIN)
    messages = [system(), user("go"), *steps(20, 300)]
    hooks.transform_context_sync(messages)
    grown = [*messages, *steps(6, 300, first=100)]
    format.left = reading
    try:
        hooks.transform_context_sync(grown)
    except KeyboardInterrupt:
        assert format.left == 0
    format.left = -1
    assert hooks.transform_context_sync(grown) == elsewhere(hooks, grown)


# -- several at once, and gone


class Held(dict[str, object]):
    """A chat message that can be weakly referenced."""


@pytest.mark.parametrize("name", ["one", "default"])
def test_nothing_is_kept_of_a_conversation_that_was_closed(name: str) -> None:
    hooks = controller(100_000, summarizer=Scripted())
    messages: list[Chat] = [Held(message) for message in (system(), user("go"), *steps(10, 30))]
    kept = [weakref.ref(message) for message in messages if isinstance(message, Held)]
    hooks.session(name).transform_context_sync(messages)
    for _ in range(2):
        hooks.session("another")  # looks at the other conversations
    hooks.close(name)
    messages.clear()
    gc.collect()
    assert not any(message() is not None for message in kept)
