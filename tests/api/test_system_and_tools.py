"""`system` and `tools` of one call: they are in no message and take room."""

from typing import Any

import pytest

from tests.conversations import controller, prose, talk


@pytest.mark.parametrize(
    "fixed", [{"system": prose(3_000)}, {"tools": [{"name": "grep", "description": prose(3_000)}]}]
)
def test_longer_system_prompt_or_tools_count_from_the_call_on_that_has_them(fixed: dict[str, Any]) -> None:
    messages = talk(8)
    hooks = controller(8_192)
    assert hooks.transform_context_sync(messages, system="Be brief.", tools=[]) is messages
    assert hooks.transform_context_sync(messages, **{"system": "Be brief.", "tools": [], **fixed}) is not messages
