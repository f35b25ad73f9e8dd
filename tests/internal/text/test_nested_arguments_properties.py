"""Tool arguments nested as deep as the interpreter allows: never an error, and the same digests from any depth of the stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.history.digests import canonical_arguments
from compaction_hooks.messages import MessageFormat
from compaction_hooks.text.json_text import MOST_NESTED, parse_json
from compaction_hooks.view.texts import shorten_arguments
from tests.conversations import Scripted, prose

T = TypeVar("T")

FRAMES_LEFT = 400
"""What a deep host leaves of the interpreter's 1,000 frames: three times as many as a call takes here with a summary."""


def called_deep(frames: int, call: Callable[[], T]) -> T:
    """Make a call with so many frames of the stack left."""
    used = 0
    frame: Any = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back

    def descend(levels: int) -> T:
        return call() if levels <= 0 else descend(levels - 1)

    return descend(sys.getrecursionlimit() - used - frames)


def nested(levels: int, text: str = "leaf", *, key: str = "tree") -> str:
    """JSON with objects and lists in turn, so many levels deep."""
    opening = [f'{{"{key}":' if level % 2 == 0 else "[" for level in range(levels)]
    closing = ["}" if level % 2 == 0 else "]" for level in reversed(range(levels))]
    return "".join([*opening, f'"{text}"', *closing])


def as_object(text: str) -> Any:
    """The value of nested JSON, made without recursion."""
    levels = text.count("{") + text.count("[")
    value: Any = text.split('"')[-2]
    for level in reversed(range(levels)):
        value = {"tree": value} if level % 2 == 0 else [value]
    return value


def chat(arguments: str) -> list[Any]:
    call = {"id": "c", "type": "function", "function": {"name": "plant", "arguments": arguments}}
    return [
        {"role": "user", "content": f"Plant it. {prose(400)}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "planted"},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "It grows."},
    ]


def anthropic(arguments: str) -> list[Any]:
    messages = chat("{}")
    messages[1] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "plant", "input": as_object(arguments)}],
    }
    messages[2] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "planted"}]}
    return messages


@given(levels=st.integers(1, 1_200), is_text=st.booleans())
@example(levels=MOST_NESTED, is_text=True)
@example(levels=MOST_NESTED + 1, is_text=True)
@example(levels=MOST_NESTED, is_text=False)
@example(levels=MOST_NESTED + 1, is_text=False)
@example(levels=950, is_text=False)
def test_a_summary_is_true_from_any_depth_of_the_stack(levels: int, is_text: bool) -> None:
    form: MessageFormat[Any] = OpenAIChatFormat() if is_text else AnthropicFormat()
    messages = (chat if is_text else anthropic)(nested(levels))
    settings = CompactionSettings(auto_compact=False)
    hooks = CompactionController[Any](context_window=1_000_000, format=form, summarizer=Scripted(), settings=settings)
    made = called_deep(FRAMES_LEFT, lambda: hooks.compact_sync(messages, keep_recent_tokens=1))
    assert made.record is not None
    record = CompactionRecord.from_json(made.record.to_json())
    for frames in (FRAMES_LEFT, 900):
        view = called_deep(frames, lambda: project(messages, record, format=form))
        assert len(view) < len(messages)


@given(levels=st.integers(1, 200))
@example(levels=MOST_NESTED)
@example(levels=MOST_NESTED + 1)
def test_deeper_than_the_bound_is_plain_text(levels: int) -> None:
    text = nested(levels).replace(":", ": ")
    is_json = levels <= MOST_NESTED
    assert (canonical_arguments(text) != text) is is_json
    shorter = shorten_arguments(nested(levels, "x" * 9_000), 1_000, 1_000)
    assert shorter.startswith('{"tree"' if is_json else '{"shortened_arguments"')
    if is_json:
        assert parse_json(text)
    else:
        with pytest.raises(ValueError, match="nested in more than 64 levels"):
            parse_json(text)
