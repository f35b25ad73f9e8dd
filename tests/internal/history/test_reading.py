"""Reading while the host goes on: messages written into, copies, subclasses, long lists without an answer, interruptions."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, OwnTexts
from compaction_hooks.history.history import MAX_WATCHED
from compaction_hooks.messages import Message, Text
from tests.conversations import (
    PLAIN,
    Chat,
    Controller,
    CountingFormat,
    Scripted,
    assistant,
    controller,
    elsewhere,
    prose,
    steps,
    system,
    user,
)

FORMAT = OpenAIChatFormat()


def reader() -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(FORMAT, lambda message: 10 + len(message.text), "[S]")


# -- nothing new


class Held(dict[str, Any]):
    """A message no copy can stand for: nothing tells whether its host wrote into it."""


def compacted(messages: list[Chat], keep: int = 500) -> Controller:
    """A controller that was told to compact this list, in a window that is large enough for all of it."""
    hooks = controller(200_000, summarizer=Scripted(), settings=PLAIN)
    hooks.transform_context_sync(messages)
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    return hooks


class Interrupting(OpenAIChatFormat):
    left = -1

    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().read(message)


@pytest.mark.parametrize("kind", [dict, Held])
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_list_in_which_nothing_is_new_is_the_one_that_was_read(kind: type[dict[str, Any]], is_copied: bool) -> None:
    messages: list[Chat] = [kind(message) for message in (system(), user("go"), *steps(5), assistant("so"), user("?"))]
    for format in (FORMAT, CountingFormat()):
        reads = HistoryReader(format, lambda _: 1, "[S]")
        history = reads.sync(None, messages, OwnTexts())
        listed = [*messages]
        if is_copied:
            listed = [*map(copy.copy, listed)]
            history = reads.sync(history, listed, history.own_texts)
        for _ in range(4):
            assert reads.sync(history, [*listed], history.own_texts) is history
        known = OwnTexts(originals={("result", 1, 0, "of a shorter text"): "of a text"})
        assert reads.sync(history, listed, known).own_texts is known


class Noted(OpenAIChatFormat):
    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        (said,) = super().read(message)
        return (replace(said, parts=(*said.parts, Text(str(message.get("note", ""))))),)


def test_a_format_that_reads_more_than_its_parent_recognises_no_message_as_that_does() -> None:
    messages = [Held(message) for message in (user("go"), assistant("so"), user("and?"))]
    reads: HistoryReader[Mapping[str, object]] = HistoryReader(Noted(), lambda _: 1, "[S]")
    history = reads.sync(None, [*messages], OwnTexts())
    messages[2]["note"] = "at once"
    history = reads.sync(history, [*messages], OwnTexts())
    assert history.piece(2).message.text == "and?at once"
    messages[0]["note"] = "by tomorrow"
    assert reads.verify(history, [*messages]).piece(0).message.text == "goby tomorrow"


@pytest.mark.parametrize("kind", [dict, Held])
def test_a_change_in_place_of_the_first_message_is_noticed_before_the_first_answer(
    kind: type[dict[str, Any]],
) -> None:
    request = kind(role="user", content="go")
    reads, messages = reader(), [request, user("on")]
    history = reads.sync(None, messages, OwnTexts())
    request["content"] = "stop"
    assert reads.sync(history, messages, history.own_texts).piece(0).message.text == "stop"


def test_of_many_messages_without_an_answer_only_the_newest_are_looked_at_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, "[S]")
    messages: list[Chat] = [Held(user(f"Log line {number}")) for number in range(500)]
    history = reads.sync(None, messages, OwnTexts())
    format.reads = 0
    assert reads.sync(history, messages, history.own_texts) is history
    assert format.reads == MAX_WATCHED


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
