"""How a conversation is read when hosts rewind and redo, write into messages, report late, and close."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionController
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
