"""A message is recognized without reading it, and a change of it never missed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from tests.cases import folded
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


@folded(
    "number, edit",
    {
        "text": (1, lambda m: m.update(content="stop")),
        "role": (1, lambda m: m.update(role="system")),
        "a mark": (1, lambda m: m.update(compaction_summary=True)),
        "no text any more": (2, lambda m: m.update(content=None)),
        "a call": (2, _append_call),
        "a refusal": (2, lambda m: m.update(refusal="no")),
        "usage": (2, lambda m: m.update(usage={"prompt_tokens": 7})),
        "one more call": (3, _append_call),
        "another tool": (3, _rename),
        "other arguments": (3, _other_arguments),
        "a call less": (3, lambda m: m["tool_calls"].pop()),
        "another id": (3, lambda m: m["tool_calls"][0].update(id="7")),
        "text beside calls": (3, lambda m: m.update(content="text")),
        "result": (5, lambda m: m.update(content="other")),
        "result of another": (5, lambda m: m.update(tool_call_id="7")),
        "failed": (5, lambda m: m.update(is_error=True)),
        "named": (5, lambda m: m.update(name="grep")),
    },
)
def test_a_change_is_never_passed_over(number: int, edit: Callable[[dict[str, Any]], object]) -> None:
    message: dict[str, Any] = copy.deepcopy(dict(PLAIN[number]))
    pieces = FORMAT.read(message)
    edit(message)
    assert not FORMAT.is_read_as(message, pieces)
    assert FORMAT.read(message) != pieces
