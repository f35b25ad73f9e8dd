"""Arguments and settings that cannot be meant, and formats, limits and tools of a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, ContextOverflowError
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import AnthropicFormat
from tests.conversations import Scripted, controller, prose, steps, talk, user

MESSAGES = [user("go"), *steps(30, 300)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"store": "records.db"}, "store='records.db' .*SQLiteStore", id="a path for a store"),
        pytest.param(
            {"settings": {"trigger_ratio": 0.8}},
            r"settings\['trigger_ratio'\]=0.8 must be",
            id="a dict of settings",
        ),
        pytest.param({"summarizer": "gpt-5"}, "summarizer='gpt-5' must be a callable", id="a name for a summarizer"),
        pytest.param({"on_event": "log"}, "on_event='log' must be a callable", id="a text for a handler"),
        pytest.param({"on_event": 5}, "on_event=5 must be a callable", id="a number for a handler"),
        pytest.param({"context_window": 0}, "context_window=0", id="no window"),
        pytest.param(
            {"context_window": 8_000, "settings": CompactionSettings(trigger_tokens=20_000)},
            "trigger_tokens=20000 is above context_window=8000",
            id="a trigger above the window",
        ),
    ],
)
def test_wrong_use_is_refused_at_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CompactionController(**arguments)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"auto_compact": "no"}, id="a text for a switch"),
        pytest.param({"overflow_patterns": "too big"}, id="a text for several"),
        pytest.param({"keep_recent_tokens": 0.5}, id="a part for a number of tokens"),
    ],
)
def test_settings_of_the_wrong_type_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(fields))):
        CompactionSettings(**fields)


def test_a_low_trigger_in_a_large_window_leaves_room_beside_the_summary() -> None:
    """At most 60 % of the trigger after a compaction, whatever the window would allow a summary."""
    hooks = controller(100_000, settings=CompactionSettings(trigger_tokens=3_000))
    hooks.transform_context_sync(MESSAGES)
    assert (hooks.state().context_tokens or 0) <= 1_800


def test_one_conversation_may_be_written_in_several_formats() -> None:
    """Each has a session of its own, and a summary made for one is not asked for again by the other."""
    asked = Scripted()
    hooks = controller(8_192, summarizer=asked, settings=CompactionSettings(clear_tool_results=False))
    talked = talk(12, 400)
    hooks.session("same").transform_context_sync(talked)
    session = hooks.session("same", format=AnthropicFormat())
    view = session.transform_context_sync([{**message} for message in talked])
    assert len(view) < len(talked)
    assert len(asked.requests) == 1
    assert hooks.session("same") is session
    hooks.close("same")
    assert hooks.session("same", format=AnthropicFormat()) is not session


def test_tools_that_do_not_fit_are_named_as_the_part_that_cannot_shrink() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    with pytest.raises(ContextOverflowError) as raised:
        hooks.compact_sync(MESSAGES, tools=[{"name": "search", "description": prose(9_000)}])
    assert raised.value.part == "tools"


def test_a_limit_is_learned_for_the_model_whatever_provider_is_named_in_front() -> None:
    hooks = CompactionController(model="gpt-5", context_window=200_000, summarizer=Scripted())
    error = RuntimeError(
        "This model's maximum context length is 9000 tokens. However, your messages resulted in 12000 tokens."
    )
    hooks.recover_sync(error, MESSAGES, model="openai/gpt-5")
    hooks.transform_context_sync(MESSAGES)
    assert hooks.state().context_window == 9_000
