"""`context_window`, `default_context_window`; what takes room in it: `max_output_tokens`, `system` and `tools` of one call."""

import logging
from typing import Any

import pytest

from compaction_hooks import CompactionController
from tests.conversations import Chat, Scripted, controller, prose, steps, talk, user

MESSAGES = [user("go"), *steps(30, 300)]


def test_the_window_of_the_call_decides_where_none_was_given() -> None:
    """After a switch to a smaller model the next call compacts first."""
    hooks = controller(None, summarizer=Scripted())
    assert hooks.transform_context_sync(MESSAGES, model="large", context_window=200_000) is MESSAGES
    assert hooks.state().context_window == 200_000
    assert len(hooks.transform_context_sync(MESSAGES, model="small", context_window=8_192)) < len(MESSAGES)
    assert hooks.state().context_window == 8_192


def test_a_window_given_to_the_controller_holds_before_the_call_s() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    assert len(hooks.transform_context_sync(MESSAGES, context_window=200_000)) < len(MESSAGES)


def test_the_part_of_a_window_that_only_the_answer_may_use_is_left_out() -> None:
    """Frameworks state input and output of gpt-5 together: 400,000, with 272,000 for the input."""
    hooks = controller(None)
    hooks.transform_context_sync([user("hi")], model="gpt-5", context_window=400_000)
    assert hooks.state().context_window == 272_000


def test_a_smaller_model_compacts_before_it_is_called() -> None:
    hooks: CompactionController[Chat] = CompactionController(model="large", context_window=200_000)
    messages = [user("go"), *steps(30, 400)]
    assert hooks.transform_context_sync(messages, model="large") is messages
    error = ValueError("prompt is too long: 9000 tokens > 8192 maximum")
    hooks.session("elsewhere").recover_sync(error, messages, model="small")
    assert hooks.transform_context_sync(messages, model="large") is messages
    assert hooks.transform_context_sync(messages, model="small") is not messages


def test_an_unknown_window_is_said_once_and_nothing_is_compacted(caplog: pytest.LogCaptureFixture) -> None:
    messages = [user("go"), *steps(40, 400)]
    hooks: CompactionController[Chat] = CompactionController(model="nobody-knows-me")
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        for _ in range(3):
            assert hooks.transform_context_sync(messages) is messages
    assert [record.message.count("context_window=") for record in caplog.records] == [1]


def test_the_room_for_the_answer_of_the_call_stays_free() -> None:
    hooks = controller(20_000, summarizer=Scripted())
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES
    assert len(hooks.transform_context_sync(MESSAGES, max_output_tokens=12_000)) < len(MESSAGES)


@pytest.mark.parametrize(
    "fixed", [{"system": prose(3_000)}, {"tools": [{"name": "grep", "description": prose(3_000)}]}]
)
def test_longer_system_prompt_or_tools_count_from_the_call_on_that_has_them(fixed: dict[str, Any]) -> None:
    messages = talk(8)
    hooks = controller(8_192)
    assert hooks.transform_context_sync(messages, system="Be brief.", tools=[]) is messages
    assert hooks.transform_context_sync(messages, **{"system": "Be brief.", "tools": [], **fixed}) is not messages
