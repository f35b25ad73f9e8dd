"""`system` and `tools` of one call: they are in no message and take room."""

from __future__ import annotations

from tests.conversations import controller, prose, talk


def test_system_prompt_and_tools_beside_the_list_count() -> None:
    messages = talk(8)
    assert controller(8_192).transform_context_sync(messages) is messages
    tools = [{"type": "function", "function": {"name": "grep", "description": prose(1_500)}}]
    view = controller(8_192).transform_context_sync(messages, system=prose(1_500), tools=tools)
    assert view is not messages
