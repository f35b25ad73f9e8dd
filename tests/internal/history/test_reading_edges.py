"""What few hosts do: objects that compare as they like, calls that vanish, messages of two speakers, calls that fail."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, Known, Origin
from compaction_hooks.history.reader import MAX_WATCHED
from compaction_hooks.messages import Message, PartAddress, Text
from tests.conversations import (
    PLAIN,
    Chat,
    CountingFormat,
    Scripted,
    assistant,
    controller,
    prose,
    steps,
    system,
    talk,
    user,
)

FORMAT = OpenAIChatFormat()


def reader() -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(FORMAT, lambda message: 10 + len(message.text), "[S]")


# -- objects that compare as they like


class Odd(dict[str, Any]):
    """A message that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("the truth value of a message is ambiguous")

    __hash__ = None  # as arrays have it


def test_copies_in_the_middle_that_cannot_be_compared_are_read_again() -> None:
    messages: list[Chat] = [Odd(message) for message in (system(), user("go"), *steps(5, 100), user("so?"))]
    reads = reader()
    first = reads.sync(None, messages, Known())
    edited = [*messages[:3], Odd(assistant("something else")), *messages[4:]]
    second = reads.sync(first, edited, Known())
    assert second.piece(3).message.text == "something else"
    assert all(one is other for one, other in zip(second.hosts(), edited, strict=True))


def test_a_field_that_cannot_be_compared_does_not_keep_a_message_from_being_looked_at_again() -> None:
    """A host that puts its own objects into a message, beside what is sent."""
    hooks = controller(8_192)
    newest: dict[str, Any] = {"score": 1, "role": "user", "content": "short"}
    messages = [system(), *talk(2), newest]
    hooks.transform_context_sync(messages)
    before = hooks.state().context_tokens
    assert before is not None
    newest["score"] = Odd()
    newest["content"] = prose(500)
    assert hooks.transform_context_sync(messages) is messages
    after = hooks.state().context_tokens
    assert after is not None
    assert after > before + 400


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
def test_a_change_in_place_of_the_first_message_is_noticed_while_nobody_has_answered(
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


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(Known(originals={("result", 40, 0, "of a shorter text"): "of a text"}), id="reductions"),
        pytest.param(Known(origins={"of a summary": Origin(40, "a digest", ())}), id="summaries"),
    ],
)
def test_once_there_are_records_copies_are_held_against_what_was_read(known: Known) -> None:
    """The original may have been changed in place since, which equal copies would hide."""
    messages: list[dict[str, Any]] = [dict(message) for message in (user("go"), *steps(5), user("so?"))]
    reads = reader()
    history = reads.sync(None, [*messages], known)
    messages[2]["content"] = "something else"
    assert reads.sync(history, copy.deepcopy(messages), known).piece(2).message.results[0].text == "something else"


def test_an_insertion_makes_the_usage_of_the_answers_behind_it_stale() -> None:
    """They measured the list without it; those before it, and those that come, measured what is there."""
    asked = [user("a"), counted(100), user("b"), counted(200)]
    reads = reader()
    history = reads.sync(None, asked, Known())
    assert [*history.counted_answers()] == [3, 1]
    inserted = [*asked[:2], user("one thing first"), *asked[2:]]
    history = reads.sync(history, inserted, Known())
    assert [*history.counted_answers()] == [1]
    history = reads.sync(history, [*inserted, user("c"), counted(300)], Known())
    assert [*history.counted_answers()] == [6, 1]


def test_an_edit_makes_the_usage_of_the_answers_behind_it_stale_though_they_were_made_anew() -> None:
    asked = [user("a"), counted(100), user("b"), counted(200)]
    reads = reader()
    edited = [*asked[:2], user("c"), counted(200)]
    assert [*reads.sync(reads.sync(None, asked, Known()), edited, Known()).counted_answers()] == [1]


def counted(tokens: int) -> Chat:
    return {**assistant("so"), "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}


# -- messages of two speakers


class Exchange:
    """Reads a question with its answer from one message."""

    name = "exchange"

    def read(self, message: Chat, /) -> Sequence[Message]:
        asked, answered = message.get("asked"), message.get("answered")
        question = () if asked is None else (Message(role="user", parts=(Text(asked),)),)
        return question if answered is None else (*question, Message(role="assistant", parts=(Text(answered),)))

    def summary(self, text: str, /) -> Chat:
        return {"asked": text}

    def take(self, message: Chat, pieces: Sequence[int], /) -> Chat:
        fields = list(message.items())
        return dict(fields[piece] for piece in pieces)

    def rewrite(self, message: Chat, texts: Mapping[PartAddress, str], /) -> Chat:
        raise AssertionError("no results")


@pytest.mark.parametrize("keep", [350, 500])
def test_a_record_may_end_in_the_middle_of_a_message(keep: int) -> None:
    messages: list[Chat] = [{"asked": f"{n}? {prose(100)}", "answered": f"{n}: {prose(200)}"} for n in range(12)]
    hooks: CompactionController[Chat] = CompactionController(
        context_window=8_192, format=Exchange(), summarizer=Scripted("- so far"), settings=PLAIN
    )
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    view = hooks.transform_context_sync(messages)
    assert [[*message] for message in view] == [["asked"], ["answered"], ["asked", "answered"]]
    grown = [*messages, {"asked": "more?", "answered": "yes"}]
    assert hooks.transform_context_sync(grown) == [*view, grown[-1]]
    other: CompactionController[Chat] = CompactionController(context_window=8_192, format=Exchange())
    other.session("other").import_records(hooks.session("default").export_records())
    assert other.session("other").transform_context_sync(grown) == [*view, grown[-1]]
