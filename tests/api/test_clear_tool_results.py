"""`CompactionSettings.clear_tool_results`: old results are cleared before anything is summarized."""

from __future__ import annotations

from tests.conversations import PLAIN, Scripted, assistant, call, controller, prose, steps, texts, tool, user


def test_old_results_are_cleared_first_and_no_summariser_is_asked() -> None:
    """Runs before and independent of a summary."""
    asked = Scripted()
    messages = [user("go"), *steps(24, 500)]
    hooks = controller(16_384, summarizer=asked)
    view = hooks.transform_context_sync(messages)
    assert asked.requests == []
    assert hooks.history()[-1].unseen_message_count == 0
    assert "Old tool result cleared" in texts(view)
    assert len(view) == len(messages)


def test_clearing_can_be_switched_off() -> None:
    asked = Scripted()
    controller(16_384, summarizer=asked, settings=PLAIN).transform_context_sync([user("go"), *steps(24, 500)])
    assert len(asked.requests) == 1


def test_results_up_to_twice_the_length_of_the_marker_are_not_cleared() -> None:
    marker = "[Old tool result cleared: 100 characters]"
    short, longer = prose(30)[:80], prose(30)[:100]
    calls = [
        assistant(None, call("short")),
        tool("short", short),
        assistant(None, call("longer")),
        tool("longer", longer),
    ]
    view = controller(16_384).transform_context_sync([user("go"), *calls, *steps(24, 500)])
    assert [view[2]["content"], view[4]["content"]] == [short, marker]
