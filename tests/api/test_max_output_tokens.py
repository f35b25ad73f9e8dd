"""`max_output_tokens` of one call: the room that its answer may take."""

from __future__ import annotations

from tests.conversations import Scripted, controller, steps, user

MESSAGES = [user("go"), *steps(30, 300)]


def test_what_the_call_asks_for_is_left_free() -> None:
    """The reserve is at least the length of answer that the call requests."""
    hooks = controller(20_000, summarizer=Scripted())
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES
    assert len(hooks.transform_context_sync(MESSAGES, max_output_tokens=12_000)) < len(MESSAGES)
