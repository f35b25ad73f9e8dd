"""One reading of a list: runs, boundaries, requests, and the chain of digests that names what a record covers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, Origin, OwnTexts
from compaction_hooks.history.digests import CHAIN_START, canonical_arguments, text_digest
from tests.cases import folded
from tests.conversations import Chat, CountingFormat, assistant, call, steps, system, talk, tool, user

MARKER = "[S]"


def reader() -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(OpenAIChatFormat(), lambda message: 10 + len(message.text), "[S]")


def history(messages: Sequence[Mapping[str, object]]) -> History[Mapping[str, object]]:
    return reader().read(messages, OwnTexts())


def chain(messages: Sequence[Mapping[str, object]]) -> list[str | None]:
    read = history(messages)
    return [read.digest_before(run) for run in range(read.run_count)]


SUMMARY = user("[S] so far")


KNOWN = OwnTexts(
    origins={text_digest("[S] so far"): Origin(runs=4, digest="0123", pins=())},
    originals={("result", 7, 0, text_digest("[cleared]")): text_digest("a long text")},
)
"""What a record tells that covers four runs, and shows a result of the eighth cleared."""


def test_runs_follow_the_sides_and_ignore_system_messages() -> None:
    read = history([system(), user("a"), user("b"), assistant("c"), system("note"), assistant("d"), user("e")])
    assert [list(read.run_pieces(run)) for run in range(read.run_count)] == [[1, 2], [3, 4, 5], [6]]
    assert [read.starts_turn(run) for run in range(read.run_count)] == [True, False, True]


def list_boundaries(read: History[Chat]) -> list[int]:
    return [run for run in range(read.run_count) if read.is_boundary(run)]


@folded(
    "messages, boundaries",
    {
        "none between a call and its result": ([user("go"), *steps(2), assistant("done"), user("more")], [1, 3, 5, 6]),
        "a system message between them makes none": (
            [user("go"), assistant(None, call("1")), system("hint"), tool("1", "ok"), assistant("done")],
            [1, 3],
        ),
        "a late result binds everything up to its call": (
            [user("go"), assistant(None, call("1")), user("hurry"), assistant("wait"), tool("1", "ok"), assistant("x")],
            [1, 5],
        ),
        "an unanswered call binds nothing": (
            [user("go"), assistant(None, call("1")), user("again"), assistant("fine"), user("next")],
            [1, 2, 3, 4],
        ),
    },
)
def test_a_history_can_be_cut_where_no_call_is_open(messages: list[Chat], boundaries: list[int]) -> None:
    assert list_boundaries(history(messages)) == boundaries


@pytest.mark.parametrize("between", [[], [system("")], [assistant(None)]])
def test_reasoning_alone_belongs_to_the_answer_behind_it(between: list[Mapping[str, object]]) -> None:
    """Providers reject the one without the other. A message that says nothing at all is no reasoning."""
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    read = history([user("go"), *between, thought, thought, assistant("x"), thought, user("y")])
    first = 1 + len(between)
    assert [read.run_start(run) for run in range(3)] == [0, first, first + 4]


def test_the_request_is_the_users_last_message() -> None:
    """A message that says nothing asks for nothing; one that only shows an image does."""
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    assert history([user("go"), assistant("so"), user("")]).request == 0
    assert history([user("go"), assistant("so"), image]).request == 2
    assert history([system(), assistant("so")]).request is None


def test_equal_objects_made_anew_are_not_read_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, MARKER)
    messages = talk(50)
    first = reads.sync(None, messages, OwnTexts())
    format.reads = 0
    copied = json.loads(json.dumps(messages))
    second = reads.sync(first, copied, OwnTexts())
    assert format.reads <= 3
    assert second.host(0) is copied[0]


class Ours(dict[str, object]):
    """A message of another class: what is read of it may be something else."""


def test_equal_objects_of_another_class_are_read_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, MARKER)
    messages = talk(5)
    first = reads.sync(None, messages, OwnTexts())
    format.reads = 0
    reads.sync(first, [Ours(message) for message in messages], OwnTexts())
    assert format.reads == len(messages)


def test_the_chain_is_the_same_however_a_side_is_cut_into_messages() -> None:
    one = [user("Hello world"), assistant("Yes, sir"), user("x")]
    other = [user("Hello "), user("world"), assistant("Yes,"), assistant(" sir"), user("x")]
    assert chain(one) == chain(other)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param([user("a!"), assistant("b"), user("c")], id="user text"),
        pytest.param([user("a"), assistant("B"), user("c")], id="assistant text"),
        pytest.param([assistant("b"), user("a"), user("c")], id="order"),
        pytest.param([user("a"), assistant("b", call("1")), user("c")], id="a call more"),
    ],
)
def test_the_chain_changes_with_the_content(changed: list[Mapping[str, object]]) -> None:
    assert chain([user("a"), assistant("b"), user("c")])[-1] != chain(changed)[-1]


def test_the_chain_leaves_out_differences_of_frameworks() -> None:
    plain = [user("a"), assistant("b"), user("c")]
    answer = {**assistant("b"), "reasoning_content": "hm"}
    dressed = [system(), {**user("a"), "name": "bob"}, system("hint"), answer, user("c"), system("hint")]
    assert chain(plain) == chain(dressed)


def test_the_empty_history_has_the_start_of_the_chain() -> None:
    assert history([]).digest_before(0) == CHAIN_START
    assert history([]).digest_before(1) is None


@pytest.mark.parametrize(
    ("arguments", "canonical"),
    [
        pytest.param('{"b": 1,  "a": [1, 2]}', '{"a":[1,2],"b":1}', id="sorted and compact"),
        pytest.param("", "{}", id="nothing is no arguments"),
        pytest.param("{broken", "{broken", id="no JSON stays"),
    ],
)
def test_arguments_have_one_form(arguments: str, canonical: str) -> None:
    assert canonical_arguments(arguments) == canonical


def test_runs_behind_a_summary_are_counted_from_the_start_of_the_conversation() -> None:
    read = reader().read([SUMMARY, *steps(2), assistant("so"), user("?")], KNOWN)
    assert (read.runs_before_list, read.run_count) == (4, 10)
    assert list_boundaries(read) == [6, 8, 9]
    assert not read.is_boundary(4)
    assert [read.digest_before(run) for run in (3, 4, 10)] == [None, "0123", None]
    assert (read.summary_piece, read.pieces()[0].side) == (0, None)
    assert reader().read([SUMMARY, *steps(2)], KNOWN).request is None


def test_a_quoted_summary_is_an_ordinary_message() -> None:
    """Ours stand at the head of a list only."""
    read = reader().read([user("go"), assistant("so"), SUMMARY, assistant("hm")], KNOWN)
    assert (read.runs_before_list, read.request, read.summary_piece) == (0, 2, None)
    assert [piece.side for piece in read.pieces()] == ["host", "assistant"] * 2


@pytest.mark.parametrize(
    ("head", "side"),
    [
        pytest.param(assistant("[S] so far"), "assistant", id="of the assistant"),
        pytest.param(user("[S] by somebody else"), "host", id="nobody has a record of"),
    ],
)
def test_a_message_that_only_looks_like_a_summary_is_an_ordinary_message(head: Chat, side: str) -> None:
    read = reader().read([head, *steps(2), user("?")], KNOWN)
    assert (read.runs_before_list, read.summary_piece, read.piece(0).side) == (0, None, side)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_results_belong_to_the_chain_in_the_order_of_their_calls(is_swapped: bool) -> None:
    calls = assistant(None, call("1", path="a"), call("2", path="b"))
    first, second = ("B", "A") if is_swapped else ("A", "B")
    one = [user("go"), calls, tool("1", "A"), tool("2", "B"), assistant("x"), user("y")]
    other = [user("go"), calls, tool("2", second), tool("1", first), assistant("x"), user("y")]
    digests = [reader().read(messages, OwnTexts()).digest_before(4) for messages in (one, other)]
    assert (digests[0] != digests[1]) is is_swapped


def test_a_result_cleared_in_the_hosts_list_counts_as_its_original() -> None:
    """By the run it stands in: the same words elsewhere are words."""

    def chain(before: int, text: str) -> str | None:
        messages = [SUMMARY, *steps(before), assistant(None, call("1")), tool("1", text), assistant("so")]
        return reader().read(messages, KNOWN).digest_before(6 + 2 * before)

    assert chain(1, "[cleared]") == chain(1, "a long text")
    assert chain(0, "[cleared]") != chain(0, "a long text")


@pytest.mark.parametrize("edited", [2, 5, 8])
def test_an_edited_list_that_begins_with_a_summary_is_read_as_if_it_were_new(edited: int) -> None:
    reads, messages = reader(), [SUMMARY, *steps(5), assistant("so"), user("?")]
    read = reads.sync(None, messages, KNOWN)
    new = [*messages[:edited], assistant("Something else."), user("And?"), *messages[edited + 1 :]]
    synced, fresh = reads.sync(read, new, KNOWN), reads.read(new, KNOWN)
    assert synced.runs_before_list == fresh.runs_before_list == 4
    assert synced.pieces() == fresh.pieces()
    assert [synced.digest_before(run) for run in range(20)] == [fresh.digest_before(run) for run in range(20)]
