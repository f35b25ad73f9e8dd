"""What few hosts do: objects that compare as they like, calls that vanish, messages of two speakers, calls that fail."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings
from compaction_hooks.digests import text_digest
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, Known, Origin
from compaction_hooks.messages import Message, PartAddress, Text
from tests.conversations import (
    Chat,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)

FORMAT = OpenAIChatFormat()
SUMMARISING = CompactionSettings(clear_tool_results=False)


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
    newest: dict[str, Any] = {"role": "user", "content": "short", "score": 1}
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


# -- what is gone


def test_a_second_answer_to_a_covered_call_that_is_gone_binds_nothing() -> None:
    """The host took the call out of its message, in place, when that was covered already."""
    messages: list[dict[str, Any]] = [dict(message) for message in (user("go"), *steps(6), assistant("wait"))]
    reads = reader()
    history = reads.sync(None, [*messages], Known())
    history.log.release(9, shown=[])
    for message in messages[:9]:
        message.pop("tool_calls", None)
    late = [*messages, tool("call_1", "once more"), assistant("so"), user("and?")]
    grown = reads.sync(history, late, Known())
    assert grown.log is history.log
    end = history.run_count
    assert [*grown.boundaries(end - 1)] == [end, end + 1, end + 2]


# -- what is let go


@pytest.mark.parametrize("released", [0, 9, 12])
@pytest.mark.parametrize(("answered", "boundaries"), [("call_0", [1, 15, 16]), ("call_1", [1, 3, 15, 16])])
def test_a_second_answer_binds_everything_up_to_its_call(answered: str, boundaries: list[int], released: int) -> None:
    """E5: whether or not what was read of the call was let go."""
    reads, messages = reader(), [user("go"), *steps(6), assistant("wait")]
    history = reads.sync(None, messages, Known())
    history.log.release(released, shown=[])
    late = [*messages, tool(answered, "once more"), assistant("so"), tool("nobody", "?")]
    assert [*reads.sync(history, late, Known()).boundaries(0)] == boundaries


def test_what_was_let_go_counts_for_the_sides_it_did() -> None:
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    messages = [system(), user(""), user("go"), thought, assistant("so"), user("and?"), *steps(2)]
    history = reader().read(messages, Known())
    history.log.release(7, shown=[])
    sides = [piece.side for piece in history.pieces()]
    assert sides == [None, None, "host", None, "assistant", "host", *["assistant", "host"] * 2]


@pytest.mark.parametrize("messages", [[user("go"), *steps(6)], [user("ask"), *steps(2), user("go"), *steps(4)]])
def test_the_current_request_is_known_though_it_was_let_go(messages: list[Chat]) -> None:
    history = reader().read(messages, Known())
    history.log.release(10, shown=[])
    assert history.request == messages.index(user("go"))


class CountingFormat(OpenAIChatFormat):
    """Counts the messages it reads."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        self.reads += 1
        return super().read(message)


def test_the_chain_goes_on_from_where_it_was_known_when_messages_were_let_go() -> None:
    """No covered message is read again for it, but those since the place that was asked for last."""
    messages = [system(), user("go"), *steps(10)]
    format = CountingFormat()
    history = HistoryReader(format, lambda _: 1, "[S]").read(messages, Known())
    history.digest_before(7)
    digests = [history.digest_before(run) for run in (9, 12)]
    history.log.release(10, shown=[])
    format.reads = 0
    assert [history.digest_before(run) for run in (9, 12)] == digests
    assert format.reads == 0
    before = HistoryReader(format, lambda _: 1, "[S]").read(messages, Known())
    before.digest_before(8)
    before.log.release(10, shown=[])
    format.reads = 0
    assert before.digest_before(9) == digests[0]
    assert 0 < format.reads <= 2


def test_what_a_view_shows_of_the_covered_messages_is_not_read_again_call_after_call() -> None:
    """System messages and pins, in calls that look at the list."""
    format, messages = CountingFormat(), [system(), user("Port the parser."), *steps(20, 100)]
    hooks: CompactionController[Chat] = CompactionController(
        context_window=200_000, format=format, summarizer=Scripted(), settings=SUMMARISING
    )
    hooks.compact_sync(messages, keep_recent_tokens=500)
    hooks.transform_context_sync(messages)
    format.reads = 0
    for number in range(4):
        messages = [*messages, *steps(1, 100, first=100 + number)]
        view = hooks.transform_context_sync(messages, context_window=200_000 - number)
        assert messages[1] in view
    assert format.reads == 8


# -- nothing new


class Held(dict[str, Any]):
    """A message no copy can stand for: nothing tells whether its host wrote into it."""


@pytest.mark.parametrize("kind", [dict, Held])
@pytest.mark.parametrize("covered", [0, 6])
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_list_in_which_nothing_is_new_is_the_one_that_was_read(
    kind: type[dict[str, Any]], covered: int, is_copied: bool
) -> None:
    """Call after call: nothing is read into a new history, whichever way the messages are recognised."""
    messages: list[Chat] = [kind(message) for message in (system(), user("go"), *steps(5), assistant("so"), user("?"))]
    for format in (FORMAT, CountingFormat()):
        reads = HistoryReader(format, lambda _: 1, "[S]")
        history = reads.sync(None, messages, Known())
        history.log.release(covered, shown=[])
        listed = [*messages]
        if is_copied:
            listed[covered:] = map(copy.copy, listed[covered:])
            history = reads.sync(history, listed, history.known)
        for _ in range(4):
            assert reads.sync(history, [*listed], history.known) is history


@pytest.mark.parametrize("kind", [dict, Held])
def test_an_answer_that_the_host_goes_on_writing_is_read_as_it_grows(kind: type[dict[str, Any]]) -> None:
    """Of a stream, say, with nothing said after it."""
    answer = kind(role="assistant", content="so")
    reads, messages = reader(), [system(), user("go"), answer]
    history = reads.sync(None, messages, Known())
    for text in ("so far", "so far so good"):
        answer["content"] = text
        history = reads.sync(history, messages, history.known)
        assert history.piece(2).message.text == text


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


def test_a_pin_is_shown_as_the_host_holds_it_now_however_often_it_was_made_anew() -> None:
    hooks = controller(8_192, summarizer=Scripted(), settings=SUMMARISING)
    messages = [system(), user("Port the parser."), *steps(22, 300)]
    for _ in range(4):
        view = hooks.transform_context_sync(messages)
        assert any(message is messages[1] for message in view)
        messages[1] = copy.deepcopy(messages[1])


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


def counted(tokens: int) -> Chat:
    return {**assistant("so"), "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}


# -- lists that begin with a summary

SUMMARY = user("[S] so far")
KNOWN = Known(
    origins={text_digest("[S] so far"): Origin(runs=4, digest="0123", pins=())},
    originals={("result", 7, 0, text_digest("[cleared]")): text_digest("a long text")},
)
"""What a record tells that covers four runs, and shows a result of the eighth cleared."""


def test_runs_behind_a_summary_are_counted_from_the_start_of_the_conversation() -> None:
    history = reader().read([SUMMARY, *steps(2), assistant("so"), user("?")], KNOWN)
    assert (history.base, history.run_count) == (4, 10)
    assert [*history.boundaries(0)] == [*history.boundaries(4)] == [6, 8, 9]
    assert [*history.boundaries(7)] == [8, 9]
    assert not history.is_boundary(4)
    assert [history.digest_before(run) for run in (3, 4, 10)] == [None, "0123", None]
    assert (history.summary_piece, history.pieces()[0].side) == (0, None)
    assert reader().read([SUMMARY, *steps(2)], KNOWN).request is None


def test_a_record_of_a_list_that_begins_with_a_summary_needs_no_other() -> None:
    """It tells what that summary covers, for who has no record of it."""
    hooks = controller(200_000, summarizer=Scripted("- the first", "- the second"), settings=SUMMARISING)
    stored = hooks.compact_sync([system(), user("go"), *steps(10, 100)], keep_recent_tokens=300).messages
    stored = [*stored, *steps(10, 100, first=20)]
    view = hooks.compact_sync(stored, keep_recent_tokens=300).messages
    assert "- the second" in texts(view)
    other = controller(200_000).session("other")
    other.import_records(hooks.session("default").export_records()[1:])
    assert other.transform_context_sync(stored) == view


def test_the_chain_is_the_same_asked_run_by_run_and_at_once() -> None:
    messages = [SUMMARY, *steps(12), assistant("so"), user("?")]
    history = reader().read(messages, KNOWN)
    for run in range(4, history.run_count):
        assert history.digest_before(run) == reader().read(messages, KNOWN).digest_before(run)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_results_belong_to_the_chain_in_the_order_of_their_calls(is_swapped: bool) -> None:
    """Also where the chain is asked for behind them only."""
    calls = assistant(None, call("1", path="a"), call("2", path="b"))
    first, second = ("B", "A") if is_swapped else ("A", "B")
    one = [user("go"), calls, tool("1", "A"), tool("2", "B"), assistant("x"), user("y")]
    other = [user("go"), calls, tool("2", second), tool("1", first), assistant("x"), user("y")]
    digests = [reader().read(messages, Known()).digest_before(4) for messages in (one, other)]
    assert (digests[0] != digests[1]) is is_swapped


def test_media_of_a_result_belong_to_the_chain() -> None:
    def shown(url: str) -> list[Chat]:
        image = [{"type": "text", "text": "a page"}, {"type": "image_url", "image_url": {"url": url}}]
        return [user("go"), assistant(None, call("1")), {**tool("1", ""), "content": image}, assistant("x")]

    urls = [f"https://example.org/{name}.png" for name in "aab"]
    one, same, other = (reader().read(shown(url), Known()).digest_before(3) for url in urls)
    assert one == same != other


def test_what_was_made_smaller_in_the_list_itself_counts_as_what_stood_there() -> None:
    """By the run it stands in: the same words elsewhere are words."""

    def chain(before: int, text: str) -> str | None:
        messages = [SUMMARY, *steps(before), assistant(None, call("1")), tool("1", text), assistant("so")]
        return reader().read(messages, KNOWN).digest_before(6 + 2 * before)

    assert chain(1, "[cleared]") == chain(1, "a long text")
    assert chain(0, "[cleared]") != chain(0, "a long text")


@pytest.mark.parametrize("covered", [0, 3])
@pytest.mark.parametrize("edited", [2, 5, 8])
def test_an_edited_list_that_begins_with_a_summary_is_read_as_if_it_were_new(edited: int, covered: int) -> None:
    reads, messages = reader(), [SUMMARY, *steps(5), assistant("so"), user("?")]
    history = reads.sync(None, messages, KNOWN)
    history.log.release(covered, shown=[])
    new = [*messages[:edited], assistant("Something else."), user("And?"), *messages[edited + 1 :]]
    synced, fresh = reads.sync(history, new, KNOWN), reads.read(new, KNOWN)
    assert synced.base == fresh.base == 4
    assert synced.pieces() == fresh.pieces()
    assert [synced.digest_before(run) for run in range(20)] == [fresh.digest_before(run) for run in range(20)]


def test_a_system_message_behind_what_is_covered_stands_where_it_stood() -> None:
    first, late = system("You are careful."), system("The user has changed.")
    messages = [first, user("go"), *steps(10, 100), late, *steps(2, 100, first=10)]
    hooks = controller(200_000, summarizer=Scripted(), settings=SUMMARISING)
    view = hooks.compact_sync(messages, keep_recent_tokens=500).messages
    assert view.index(first) == 0
    assert [message for message in view[1:] if message["role"] == "system"] == [late]
    assert view[-5:] == messages[-5:]


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
        context_window=8_192, format=Exchange(), summarizer=Scripted("- so far"), settings=SUMMARISING
    )
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    view = hooks.transform_context_sync(messages)
    assert [[*message] for message in view] == [["asked"], ["answered"], ["asked", "answered"]]
    grown = [*messages, {"asked": "more?", "answered": "yes"}]
    assert hooks.transform_context_sync(grown) == [*view, grown[-1]]
    other: CompactionController[Chat] = CompactionController(context_window=8_192, format=Exchange())
    other.session("other").import_records(hooks.session("default").export_records())
    assert other.session("other").transform_context_sync(grown) == [*view, grown[-1]]
