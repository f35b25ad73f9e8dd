from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, Known
from compaction_hooks.history.digests import CHAIN_START, canonical_arguments
from tests.conversations import CountingFormat, assistant, call, steps, system, talk, tool, user

MARKER = "[Conversation summary]"


def reader(format: OpenAIChatFormat | None = None) -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(format or OpenAIChatFormat(), lambda message: 10 + len(message.text), MARKER)


def history(messages: Sequence[Mapping[str, object]]) -> History[Mapping[str, object]]:
    return reader().read(messages, Known())


def chain(messages: Sequence[Mapping[str, object]]) -> list[str | None]:
    read = history(messages)
    return [read.digest_before(run) for run in range(read.run_count)]


def test_runs_follow_the_sides_and_ignore_system_messages() -> None:
    read = history([system(), user("a"), user("b"), assistant("c"), system("note"), assistant("d"), user("e")])
    assert [list(read.run_pieces(run)) for run in range(read.run_count)] == [[1, 2], [3, 4, 5], [6]]
    assert [read.starts_turn(run) for run in range(read.run_count)] == [True, False, True]


def test_no_boundary_lies_between_a_call_and_its_result() -> None:
    read = history([user("go"), *steps(2), assistant("done"), user("more")])
    assert list(read.boundaries(0)) == [1, 3, 5, 6]


def test_a_system_message_between_call_and_result_makes_no_boundary() -> None:
    read = history([user("go"), assistant(None, call("1")), system("hint"), tool("1", "ok"), assistant("done")])
    assert list(read.boundaries(0)) == [1, 3]


def test_a_late_result_binds_everything_up_to_its_call() -> None:
    """An asynchronous tool answers after another message of the assistant."""
    read = history(
        [user("go"), assistant(None, call("1")), user("hurry"), assistant("wait"), tool("1", "ok"), assistant("x")]
    )
    assert list(read.boundaries(0)) == [1, 5]


def test_an_unanswered_call_binds_nothing() -> None:
    """A history that is broken already can still be cut."""
    read = history([user("go"), assistant(None, call("1")), user("again"), assistant("fine"), user("next")])
    assert list(read.boundaries(0)) == [1, 2, 3, 4]


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


@pytest.mark.parametrize("place", [0, -1])
def test_new_equal_messages_replace_the_old_objects_at_both_ends(place: int) -> None:
    reads, messages = reader(), talk(3)
    first = reads.sync(None, messages, Known())
    made = [*messages]
    made[place] = dict(messages[place])
    second = reads.sync(first, made, Known())
    assert second.host(place % len(made)) is made[place]


def test_equal_objects_made_anew_are_not_read_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, MARKER)
    messages = talk(50)
    first = reads.sync(None, messages, Known())
    format.reads = 0
    copied = json.loads(json.dumps(messages))
    second = reads.sync(first, copied, Known())
    assert format.reads <= 3
    assert second.host(0) is copied[0]


class Ours(dict[str, object]):
    """A message of another class: what is read of it may be something else."""


def test_equal_objects_of_another_class_are_read_again() -> None:
    format = CountingFormat()
    reads = HistoryReader(format, lambda _: 1, MARKER)
    messages = talk(5)
    first = reads.sync(None, messages, Known())
    format.reads = 0
    reads.sync(first, [Ours(message) for message in messages], Known())
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
