"""Guarantees for every conversation, well-formed or broken, at any small window."""

from __future__ import annotations

import json

import pytest

from tests.conversations import Chat

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionRecord, CompactionSettings, project
from compaction_hooks.testing.strategies import histories, hostile_histories, openai_chats
from tests.conversations import Scripted, controller, prose, user
from tests.invariants import estimate_message, run_and_check
from tests.sizes import examples

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

conversations = openai_chats(st.one_of(histories(most_turns=6), hostile_histories(most_beats=25))).filter(bool)
"""Realistic and hostile conversations; without the empty list, which has no turn."""


@settings(examples(80), suppress_health_check=SLOW)
@given(conversations, st.sampled_from([2_048, 4_096, 8_192]), st.booleans(), st.booleans())
def test_every_view_keeps_every_promise(messages: list[Chat], window: int, reports_usage: bool, clears: bool) -> None:
    policy = CompactionSettings(clear_tool_results=clears)
    run_and_check(
        {"messages": messages}, window, estimate_message, reports_usage=reports_usage, settings=policy, is_hostile=True
    )


@settings(examples(60), suppress_health_check=SLOW)
@given(conversations, st.integers(100, 4_000))
def test_a_manual_compaction_travels(messages: list[Chat], keep: int) -> None:
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    result = hooks.compact_sync(messages, keep_recent_tokens=keep)
    if result.record is None:
        assert result.messages is messages
        return
    record = CompactionRecord.from_json(result.record.to_json())
    copied = json.loads(json.dumps(messages))
    assert json.dumps(project(copied, record)) == json.dumps(result.messages)
    assert project(result.messages, record) == result.messages
    assert result.tokens_after < result.tokens_before


@settings(examples(30), suppress_health_check=SLOW)
@given(conversations, st.data())
def test_a_rewind_never_shows_a_stale_summary_or_loses_a_message(messages: list[Chat], data: st.DataObject) -> None:
    hooks = controller(4_096, summarizer=Scripted("- facts"))
    hooks.transform_context_sync(messages)
    rewound = [*messages[: data.draw(st.integers(1, len(messages)))], user("something new " + prose(10))]
    view = hooks.transform_context_sync(rewound)
    assert view[-1] is rewound[-1]
    true = [CompactionRecord.from_dict(fields) for fields in hooks.session("default").export_records()]
    expected = next(
        (project(rewound, record) for record in reversed(true) if project(rewound, record) != rewound), rewound
    )
    assert json.dumps(expected) == json.dumps(view)
