"""What few hosts do: objects that compare as they like, calls that vanish, messages of two speakers, calls that fail."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, Known
from compaction_hooks.history.reader import MAX_WATCHED
from compaction_hooks.messages import Message, Text
from tests.conversations import (
    Chat,
    CountingFormat,
    assistant,
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


@pytest.mark.parametrize("kind", [dict, Held])
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_list_in_which_nothing_is_new_is_the_one_that_was_read(kind: type[dict[str, Any]], is_copied: bool) -> None:
    """Call after call: nothing is read into a new history, whichever way the messages are recognized."""
    messages: list[Chat] = [kind(message) for message in (system(), user("go"), *steps(5), assistant("so"), user("?"))]
    for format in (FORMAT, CountingFormat()):
        reads = HistoryReader(format, lambda _: 1, "[S]")
        history = reads.sync(None, messages, Known())
        listed = [*messages]
        if is_copied:
            listed = [*map(copy.copy, listed)]
            history = reads.sync(history, listed, history.known)
        for _ in range(4):
            assert reads.sync(history, [*listed], history.known) is history
        known = Known(originals={("result", 1, 0, "of a shorter text"): "of a text"})
        assert reads.sync(history, listed, known).known is known


class Noted(OpenAIChatFormat):
    """Reads a field more than its parent does."""

    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        (said,) = super().read(message)
        return (replace(said, parts=(*said.parts, Text(str(message.get("note", ""))))),)


def test_a_format_that_reads_more_than_its_parent_recognises_no_message_as_that_does() -> None:
    messages = [Held(message) for message in (user("go"), assistant("so"), user("and?"))]
    reads: HistoryReader[Mapping[str, object]] = HistoryReader(Noted(), lambda _: 1, "[S]")
    history = reads.sync(None, [*messages], Known())
    messages[2]["note"] = "at once"
    history = reads.sync(history, [*messages], Known())
    assert history.piece(2).message.text == "and?at once"
    messages[0]["note"] = "by tomorrow"
    assert reads.verify(history, [*messages]).piece(0).message.text == "goby tomorrow"


@pytest.mark.parametrize("kind", [dict, Held])
def test_a_change_in_place_of_the_first_message_is_noticed_before_the_first_answer(
    kind: type[dict[str, Any]],
) -> None:
    request = kind(role="user", content="go")
    reads, messages = reader(), [request, user("on")]
    history = reads.sync(None, messages, Known())
    request["content"] = "stop"
    assert reads.sync(history, messages, history.known).piece(0).message.text == "stop"


def test_of_many_messages_without_an_answer_only_the_newest_are_looked_at_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, "[S]")
    messages: list[Chat] = [Held(user(f"Log line {number}")) for number in range(500)]
    history = reads.sync(None, messages, Known())
    format.reads = 0
    assert reads.sync(history, messages, history.known) is history
    assert format.reads == MAX_WATCHED
