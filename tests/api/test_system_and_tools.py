"""`system` and `tools` of one call: they are in no message and take room."""

from __future__ import annotations

import pytest

from compaction_hooks import ContextOverflowError
from tests.conversations import Scripted, controller, prose, steps, talk, user

MESSAGES = [user("go"), *steps(30, 300)]


def test_system_prompt_and_tools_beside_the_list_count() -> None:
    messages = talk(8)
    assert controller(8_192).transform_context_sync(messages) is messages
    tools = [{"type": "function", "function": {"name": "grep", "description": prose(1_500)}}]
    view = controller(8_192).transform_context_sync(messages, system=prose(1_500), tools=tools)
    assert view is not messages


def test_tools_that_do_not_fit_are_named_as_the_part_that_cannot_shrink() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    with pytest.raises(ContextOverflowError) as raised:
        hooks.compact_sync(MESSAGES, tools=[{"name": "search", "description": prose(9_000)}])
    assert raised.value.part == "tools"
