"""What was read of covered messages is let go, and comes back when somebody asks for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionSettings
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, Known
from compaction_hooks.history.log import COVERED_PER_CALL
from compaction_hooks.history.snapshots import MOST_NESTED, NotPlainError, snapshot
from tests.conversations import Chat, Scripted, assistant, call, controller, steps, system, talk, texts, tool, user

FORMAT = OpenAIChatFormat()
SUMMARISING = CompactionSettings(clear_tool_results=False)


def reader() -> HistoryReader[Mapping[str, object]]:
    return HistoryReader(FORMAT, lambda message: 10 + len(message.text), "[S]")


def read(messages: list[Chat]) -> History[Mapping[str, object]]:
    return reader().read(messages, Known())


def test_what_was_let_go_is_read_again_as_it_was() -> None:
    messages = [system(), user("go"), *steps(10), assistant("done"), *talk(3)]
    whole, part = read(messages), read(messages)
    part.log.release(14, shown=[0, 1])
    part.log.release(6, shown=[0, 1])  # of an older record that is in force again
    assert part.log.released == 14
    assert part.pieces() == whole.pieces()
    assert [part.digest_before(run) for run in range(part.run_count)] == [
        whole.digest_before(run) for run in range(whole.run_count)
    ]
    assert [*part.answers()] == [index for index in whole.answers() if index >= part.log.released]
    assert part.hosts() == messages
    assert part.hosts(9) == messages[9:]
    assert (part.request, part.systems(), part.tokens()) == (whole.request, whole.systems(), whole.tokens())


def test_letting_go_keeps_the_chain_that_is_asked_for_next() -> None:
    messages = [system(), user("go"), *steps(10)]
    history = read(messages)
    digest = history.digest_before(8)
    history.log.release(10, shown=[])
    assert history.digest_before(8) == digest
    assert history.digest_before(3) == read(messages).digest_before(3)


def test_a_second_answer_to_a_covered_call_binds_what_it_would_have_bound() -> None:
    """A process that reads the whole list anew must find the same boundaries."""
    messages = [user("go"), *steps(6), assistant("wait")]
    history = read(messages)
    history.log.release(9, shown=[])
    late = [*messages, tool("call_1", "once more"), assistant("so"), tool("nobody", "?")]
    grown = reader().sync(history, late, Known())
    assert grown.log is history.log
    assert list(grown.boundaries(0)) == list(read(late).boundaries(0))


@pytest.mark.parametrize("calls_before", [0, 3, 6])
def test_an_edit_of_what_is_covered_is_noticed_within_a_few_calls(calls_before: int) -> None:
    """All covered messages are held against the list in turns of `COVERED_PER_CALL`: at once, while they are no more."""
    count = 3 * COVERED_PER_CALL
    messages = [user("go"), *steps(count // 2), *steps(4, first=count)]
    reads = reader()
    history = reads.sync(None, messages, Known())
    history.log.release(count, shown=[])
    for _ in range(calls_before):
        assert reads.sync(history, messages, history.known) is history
    edited = [*messages]
    edited[5] = assistant("something else")
    noticed = [reads.sync(history, edited, history.known).log is not history.log for _ in range(3)]
    assert noticed == [False, False, True]


def test_a_pin_that_was_made_anew_is_shown_as_the_host_holds_it_now() -> None:
    hooks = controller(8_192, summarizer=Scripted(), settings=SUMMARISING)
    messages = [system(), user("Port the parser."), *steps(22, 300)]
    assert messages[1] in hooks.transform_context_sync(messages)
    messages[1] = copy.deepcopy(messages[1])
    view = hooks.transform_context_sync(messages)
    assert any(message is messages[1] for message in view)


def test_a_pin_that_was_changed_in_place_takes_the_summary_out_of_force_at_the_next_compaction() -> None:
    summaries = Scripted("- the first", "- the second")
    hooks = controller(8_192, summarizer=summaries, settings=SUMMARISING)
    request: dict[str, Any] = {"role": "user", "content": "Port the parser."}
    messages: list[Chat] = [system(), request, *steps(22, 300)]
    assert "- the first" in texts(hooks.transform_context_sync(messages))
    request["content"] = "Port the lexer."
    view = hooks.compact_sync([*messages, *steps(4, 300, first=50)]).messages
    assert [request.previous_summary for request in summaries.requests] == [None, None]
    assert "- the second" in texts(view)
    assert "Port the lexer." in texts(view)


# -- recognising without reading

PLAIN: list[Chat] = [
    system(),
    user("go"),
    assistant("hm"),
    assistant(None, call("1"), call("2", "grep", pattern="x")),
    assistant("so", call("3")),
    tool("1", "found"),
    {"role": "tool", "tool_call_id": "2", "name": "grep", "content": "nothing"},
]


@pytest.mark.parametrize("message", PLAIN)
def test_a_plain_message_is_recognised_without_reading_it(message: Chat) -> None:
    assert FORMAT.is_read_as(message, FORMAT.read(message))


def test_a_call_of_a_custom_tool_is_read_to_be_recognised() -> None:
    """It is written in fields of its own."""
    made = {"id": "1", "type": "custom", "custom": {"name": "grep", "input": "x"}}
    message = assistant(None, made)
    assert not FORMAT.is_read_as(message, FORMAT.read(message))


def _append_call(message: dict[str, Any]) -> None:
    message["tool_calls"] = [*message.get("tool_calls", []), call("9")]


def _rename(message: dict[str, Any]) -> None:
    message["tool_calls"][0]["function"]["name"] = "other"


def _other_arguments(message: dict[str, Any]) -> None:
    message["tool_calls"][0]["function"]["arguments"] = '{"n": 1}'


@pytest.mark.parametrize(
    ("number", "edit"),
    [
        pytest.param(1, lambda m: m.update(content="stop"), id="text"),
        pytest.param(1, lambda m: m.update(role="system"), id="role"),
        pytest.param(1, lambda m: m.update(compaction_summary=True), id="a mark"),
        pytest.param(2, lambda m: m.update(content=None), id="no text any more"),
        pytest.param(2, _append_call, id="a call"),
        pytest.param(2, lambda m: m.update(refusal="no"), id="a refusal"),
        pytest.param(2, lambda m: m.update(usage={"prompt_tokens": 7}), id="usage"),
        pytest.param(3, _append_call, id="one more call"),
        pytest.param(3, _rename, id="another tool"),
        pytest.param(3, _other_arguments, id="other arguments"),
        pytest.param(3, lambda m: m["tool_calls"].pop(), id="a call less"),
        pytest.param(3, lambda m: m["tool_calls"][0].update(id="7"), id="another id"),
        pytest.param(3, lambda m: m.update(content="text"), id="text beside calls"),
        pytest.param(5, lambda m: m.update(content="other"), id="result"),
        pytest.param(5, lambda m: m.update(tool_call_id="7"), id="result of another"),
        pytest.param(5, lambda m: m.update(is_error=True), id="failed"),
        pytest.param(5, lambda m: m.update(name="grep"), id="named"),
    ],
)
def test_a_change_is_never_passed_over(number: int, edit: Callable[[dict[str, Any]], object]) -> None:
    message: dict[str, Any] = copy.deepcopy(dict(PLAIN[number]))
    pieces = FORMAT.read(message)
    edit(message)
    assert not FORMAT.is_read_as(message, pieces)
    assert FORMAT.read(message) != pieces


def test_a_snapshot_shares_no_list_and_no_dict() -> None:
    message: Any = {"content": [{"type": "text", "text": "a"}], "calls": [{"function": {"arguments": "{}"}}], "n": 1}
    copied = snapshot(message)
    assert copied == message
    message["calls"][0]["function"]["arguments"] += "x"
    assert copied != message


def nested(depth: int, kind: Callable[[object], object]) -> object:
    value: object = 1
    for _ in range(depth):
        value = kind(value)
    return value


@pytest.mark.parametrize("kind", [lambda value: {"a": value}, lambda value: [value]])
def test_what_is_nested_no_deeper_than_messages_are_has_a_snapshot(kind: Callable[[object], object]) -> None:
    assert snapshot(nested(MOST_NESTED, kind)) == nested(MOST_NESTED, kind)
    with pytest.raises(NotPlainError):
        snapshot(nested(MOST_NESTED + 1, kind))


@pytest.mark.parametrize("value", [object(), {"a": (1, 2)}, [{1, 2}], ()])
def test_what_is_not_plain_has_no_snapshot(value: object) -> None:
    with pytest.raises(NotPlainError):
        snapshot(value)
