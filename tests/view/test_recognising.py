"""A message is recognized without reading it, and a change of it never missed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from tests.conversations import Chat, assistant, call, system, tool, user

FORMAT = OpenAIChatFormat()


PLAIN: list[Chat] = [
    system(),
    user("go"),
    assistant("hm"),
    assistant(None, call("1"), call("2", "grep", pattern="x")),
    assistant("so", call("3")),
    tool("1", "found"),
    {"role": "tool", "tool_call_id": "2", "name": "grep", "content": "nothing"},
    assistant("", call("3")),
]


@pytest.mark.parametrize("message", PLAIN)
def test_a_plain_message_is_recognised_without_reading_it(message: Chat) -> None:
    assert FORMAT.is_read_as(message, FORMAT.read(message))


def test_a_call_of_a_custom_tool_is_read_to_be_recognised() -> None:
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
