"""A `cache_control` on messages that a summary covers moves to the summary, so that the host's prompt caching goes on."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from tests.conversations import Scripted, prose

HOUR = {"type": "ephemeral", "ttl": "1h"}
SHORT = {"type": "ephemeral"}
FORMATS = [AnthropicFormat(), OpenAIChatFormat()]


def list_texts(role: str, text: str, mark: Mapping[str, str] | None = None) -> dict[str, Any]:
    block = {"type": "text", "text": text}
    return {"role": role, "content": [{**block, "cache_control": mark} if mark else block]}


def conversation(*marked: int, system: bool = False) -> list[Any]:
    """Return ten messages, some with a mark; the first mark lives an hour, the others the usual five minutes."""
    messages: list[Any] = [list_texts("system", "Be careful.", HOUR)] if system else []
    for number in range(10):
        mark = None if number not in marked else HOUR if number == min(marked) else SHORT
        messages.append(list_texts("user" if number % 2 == 0 else "assistant", f"{number}: {prose(200)}", mark))
    return messages


def hook(form: Any) -> CompactionController[Any]:
    settings = CompactionSettings(auto_compact=False, keep_user_tokens=0)
    return CompactionController(
        context_window=1_000_000, format=form, summarizer=Scripted("## Goal\n- go on"), settings=settings
    )


def marks(messages: Sequence[Any]) -> list[Any]:
    return [
        (place, block["cache_control"])
        for place, message in enumerate(messages)
        for block in message["content"]
        if isinstance(block, dict) and "cache_control" in block
    ]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_the_last_mark_of_the_covered_messages_moves_to_the_summary(form: Any) -> None:
    messages = conversation(1, 4, 9)
    before = copy.deepcopy(messages)
    view = hook(form).compact_sync(messages, keep_recent_tokens=450).messages
    assert marks(view) == [(0, SHORT), (len(view) - 1, SHORT)]
    assert "go on" in view[0]["content"][0]["text"]
    assert messages == before


def test_a_mark_inside_a_tools_result_or_next_to_the_content_counts() -> None:
    inside = {"type": "text", "text": "read", "cache_control": HOUR}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [inside]}
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    start = [
        list_texts("user", prose(300)),
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    view = hook(AnthropicFormat()).compact_sync([*start, *conversation()], keep_recent_tokens=450).messages
    assert marks(view) == [(0, HOUR)]
    messages = conversation()
    messages[2] = {"role": "user", "content": f"2: {prose(200)}", "cache_control": SHORT}
    assert marks(hook(OpenAIChatFormat()).compact_sync(messages, keep_recent_tokens=450).messages) == [(0, SHORT)]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_the_view_stays_the_same_between_compactions_and_in_another_process(form: Any) -> None:
    hooks, messages = hook(form), conversation(4)
    first = hooks.compact_sync(messages, keep_recent_tokens=450)
    assert first.record is not None
    record = CompactionRecord.from_json(first.record.to_json())
    for number in range(3):
        messages = [*messages, list_texts("user", f"Next {number}."), list_texts("assistant", "Yes.")]
        view = hooks.transform_context_sync(messages)
        assert view[: len(first.messages)] == first.messages
        assert project(json.loads(json.dumps(messages)), record, format=form) == view


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_the_next_summary_takes_a_newer_mark_or_keeps_the_old_one(form: Any) -> None:
    hooks, messages = hook(form), conversation(1)
    assert marks(hooks.compact_sync(messages, keep_recent_tokens=450).messages) == [(0, HOUR)]
    messages = [*messages, *conversation()]
    assert marks(hooks.compact_sync(messages, keep_recent_tokens=450).messages) == [(0, HOUR)]
    messages = [*messages, list_texts("user", f"Mind this. {prose(200)}", SHORT), *conversation()[1:]]
    assert marks(hooks.compact_sync(messages, keep_recent_tokens=450).messages) == [(0, SHORT)]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_a_host_that_moves_its_mark_on_never_sends_one_more_than_it_has(form: Any) -> None:
    """Anthropic takes four; a host that keeps count of its own would be refused."""
    hooks, same = hook(form), conversation(4)
    assert len(marks(hooks.compact_sync(same, keep_recent_tokens=450).messages)) == 1
    assert len(marks(hooks.transform_context_sync(same))) == 1
    del same[4]["content"][0]["cache_control"]
    assert marks(hooks.transform_context_sync(same)) == []
    moved = [*conversation(), list_texts("user", "Next.", SHORT)]
    for messages in ([*same, moved[-1]], moved, [*moved, list_texts("assistant", "Yes.")], copy.deepcopy(moved)):
        assert len(marks(hooks.transform_context_sync(messages))) == 1


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_a_marked_summary_at_the_head_of_a_list_is_recognised(form: Any) -> None:
    """A host may store the view and go on with it."""
    hooks = hook(form)
    stored = hooks.compact_sync(conversation(4), keep_recent_tokens=450).messages
    grown = [*stored, *conversation()]
    again = hooks.compact_sync(grown, keep_recent_tokens=450)
    assert again.record is not None
    assert again.record.base is not None
    assert marks(again.messages) == [(0, HOUR)]
    assert again.record.compaction_count == 2


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: str(form.name))
def test_a_message_that_is_pinned_after_its_mark_moved_takes_the_mark_back(form: Any) -> None:
    """Providers allow four marks: a host with four would be refused for a fifth."""
    messages = conversation(0)
    hooks = hook(form)
    assert marks(hooks.compact_sync(messages, keep_recent_tokens=450).messages) == [(0, HOUR)]
    hooks.pin(messages[0])
    grown = [*messages, *conversation()]
    assert marks(hooks.compact_sync(grown, keep_recent_tokens=450).messages) == [(1, HOUR)]


def test_a_compaction_looks_for_the_mark_of_each_covered_message_once() -> None:
    """A list without marks is searched to its beginning, and a long list has thousands of messages there."""
    looked: list[int] = []

    class Counted(AnthropicFormat):
        def cache_mark(self, message: Any, /) -> object | None:
            looked.append(id(message))
            return super().cache_mark(message)

    messages = conversation()
    session = hook(Counted()).session("thread")
    session.compact_sync(messages, keep_recent_tokens=450)
    session.transform_context_sync(messages)
    assert len(looked) == len({*looked}) > 4
