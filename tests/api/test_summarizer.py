"""`summarizer`, of the controller or of one call."""

from __future__ import annotations

from compaction_hooks import CompactionController, CompactionSettings
from tests.conversations import Scripted, controller, steps, texts, user

MESSAGES = [user("go"), *steps(30, 300)]


async def test_the_call_s_summariser_is_asked_where_the_controller_has_none() -> None:
    own = Scripted("- by the conversation's own model")
    hooks = CompactionController(context_window=8_192, settings=CompactionSettings(clear_tool_results=False))
    assert "own model" in texts(await hooks.transform_context(MESSAGES, summarizer=own))
    assert "own model" in texts(hooks.session("sync").transform_context_sync(MESSAGES, summarizer=own))


def test_the_controller_s_summariser_holds_before_the_call_s() -> None:
    theirs, own = Scripted(), Scripted()
    hooks = controller(8_192, summarizer=theirs, settings=CompactionSettings(clear_tool_results=False))
    hooks.transform_context_sync(MESSAGES, summarizer=own)
    assert theirs.requests
    assert not own.requests
