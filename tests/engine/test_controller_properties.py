"""Guarantees for every conversation, well-formed or broken, at any small window."""

import json

import pytest

from tests.conversations import Chat

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings, Message, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.testing import as_anthropic, as_openai_chat
from tests.conversations import Scripted, controller, prose, user
from tests.invariants import estimate_message, run
from tests.strategies import examples, histories, hostile_histories, openai_chats

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

conversations = openai_chats(st.one_of(histories(most_turns=6), hostile_histories(most_beats=25))).filter(bool)
"""Realistic and hostile conversations; without the empty list, which has no turn."""


@settings(examples(80), suppress_health_check=SLOW)
@given(conversations, st.sampled_from([2_048, 4_096, 8_192]), st.booleans(), st.booleans())
def test_every_view_keeps_every_promise(messages: list[Chat], window: int, reports_usage: bool, clears: bool) -> None:
    policy = CompactionSettings(clear_tool_results=clears)
    report = run(
        {"messages": messages}, window, estimate_message, reports_usage=reports_usage, settings=policy, is_hostile=True
    )
    assert not report.broken


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


@settings(examples(40), suppress_health_check=SLOW)
@given(histories(), st.integers(200, 3_000))
def test_a_record_made_in_one_format_gives_the_same_view_in_another(messages: list[Message], keep: int) -> None:
    """The record of any realistic conversation applies to it in Anthropic's form too."""
    spoken = [message for message in messages if message.role != "system"]
    chat = [as_openai_chat(message) for message in spoken]
    made = CompactionController(context_window=1_000_000).session("here")
    result = made.compact_sync(chat, keep_recent_tokens=keep)
    elsewhere = CompactionController(
        format=AnthropicFormat(), context_window=1_000_000, settings=CompactionSettings(auto_compact=False)
    ).session("there")
    elsewhere.import_records(made.export_records())
    view = elsewhere.transform_context_sync(as_anthropic(spoken))
    wanted = [piece for message in result.messages for piece in OpenAIChatFormat().read(message)]
    found = [piece for message in view for piece in AnthropicFormat().read(message)]
    assert _contents(found) == _contents(wanted)


def _contents(messages: list[Message]) -> tuple[str, list[str], list[str]]:
    """Return texts, tool calls and results, independently of message borders."""
    texts = "".join(message.text for message in messages)
    calls = [call.id for message in messages for call in message.calls]
    results = [result.text for message in messages for result in message.results]
    return texts, calls, results
