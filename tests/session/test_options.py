"""What a caller tells of one call: its model's window, its output limit, who summarises, who hears of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings, ContextOverflowError, Usage
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.validity import problems
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, talk, texts, tool, user

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
    """Frameworks tell input and output of gpt-5 together: 400,000, of which 272,000 are for the input."""
    hooks = controller(None)
    hooks.transform_context_sync([user("hi")], model="gpt-5", context_window=400_000)
    assert hooks.state().context_window == 272_000


def test_what_the_call_asks_for_is_left_free() -> None:
    """The reserve is at least what the call asks the model for."""
    hooks = controller(20_000, summarizer=Scripted())
    assert hooks.transform_context_sync(MESSAGES) is MESSAGES
    assert len(hooks.transform_context_sync(MESSAGES, max_output_tokens=12_000)) < len(MESSAGES)


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


async def test_a_call_s_event_handler_hears_of_that_call_alone() -> None:
    always: list[CompactionEvent] = []
    once: list[CompactionEvent] = []
    hooks = controller(8_192, summarizer=Scripted(), events=always)
    await hooks.transform_context(MESSAGES, on_event=once.append)
    await hooks.session("another").transform_context(MESSAGES)
    finished = [[event for event in heard if isinstance(event, CompactionFinished)] for heard in (always, once)]
    assert [len(events) for events in finished] == [2, 1]
    assert finished[1][0].session_id == "default"


def test_a_part_of_an_unknown_window_is_refused_where_the_model_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"trigger_ratio=0.8 .* model='nobody-knows-me' .*context_window"):
        CompactionController(model="nobody-knows-me", settings=CompactionSettings(trigger_ratio=0.8))


def test_a_record_taken_back_does_not_come_in_again() -> None:
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync(MESSAGES)
    records = session.export_records()
    assert session.undo() is not None
    assert session.import_records(records) == 0
    assert session.history() == []


def test_exported_records_are_plain_json() -> None:
    """Stores and checkpointers may keep them as they are: lists, no tuples."""
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync([user("go"), *steps(40, 300)])
    (record,) = session.export_records()
    assert record["digest"]
    assert json.loads(json.dumps(record)) == record


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


# -- a history that was broken before


def broken(count: int) -> list[Chat]:
    """A run that crashed while two tools were at work, and was gone on with; and a result whose call was lost."""
    crashed = assistant(None, call("a", path="a.py"), call("b", path="b.py"))
    return [
        user("go"),
        *steps(count, 300),
        crashed,
        user("go on"),
        tool("lost", "of a call nobody made"),
        assistant("Yes."),
    ]


def found(messages: list[Mapping[str, object]]) -> list[str]:
    """What OpenAI would reject in these messages."""
    return [problem.rule for problem in problems([OpenAIChatFormat().read(m)[0] for m in messages], "openai_chat")]


def test_a_broken_history_is_mended_on_request_on_every_path() -> None:
    """What is sent is valid; the host's list stays as it was."""
    short, long = broken(2), broken(40)
    before = json.dumps([short, long])
    hooks = controller(8_192, summarizer=Scripted())
    sent: list[list[Mapping[str, object]]] = []
    hooks.call_sync(short, sent.append, repair=True)
    hooks.call_sync(long, sent.append, repair=True)
    views = [
        hooks.transform_context_sync(short, repair=True),
        hooks.transform_context_sync(long, repair=True),
        hooks.compact_sync(long, repair=True, keep_recent_tokens=1_000).messages,
        hooks.recover_sync(OverflowError("prompt is too long: 9000 tokens > 8192 maximum"), long, repair=True),
    ]
    assert [found(view) for view in (*sent, *views)] == [[]] * 6
    assert json.dumps([short, long]) == before


def test_mending_is_a_setting_too_and_a_call_may_do_without() -> None:
    messages = broken(2)
    hooks = controller(settings=CompactionSettings(repair=True))
    assert found(hooks.transform_context_sync(messages)) == []
    assert hooks.transform_context_sync(messages, repair=False) is messages


def test_mending_nothing_gives_the_very_list_back() -> None:
    assert controller().transform_context_sync(MESSAGES[:9], repair=True) == MESSAGES[:9]
    whole = MESSAGES[:9]
    assert controller().transform_context_sync(whole, repair=True) is whole


def test_a_mended_view_is_the_same_on_the_next_call() -> None:
    """Its beginning is byte-identical, so that prompt caches hold."""
    messages = broken(2)
    hooks = controller(settings=CompactionSettings(repair=True))
    first = texts(hooks.transform_context_sync(messages))
    longer = texts(hooks.transform_context_sync([*messages, user("and then?")]))
    assert longer.startswith(first[:-1])


def test_usage_is_reported_for_the_view_as_it_was_mended() -> None:
    hooks = controller(settings=CompactionSettings(repair=True))
    view = hooks.transform_context_sync(broken(2))
    hooks.report_usage(Usage(input_tokens=1_234), view)
    assert hooks.state().context_tokens == 1_234


def test_a_format_that_cannot_mend_says_what_it_lacks() -> None:
    hooks = controller(format=Reading(), settings=CompactionSettings(repair=True))
    with pytest.raises(ConfigurationError, match="repair"):
        hooks.transform_context_sync(broken(2))


class Reading:
    """A format with no more than a `MessageFormat` has to have."""

    name = "reading"

    def __init__(self) -> None:
        inner = OpenAIChatFormat()
        self.read, self.summary, self.take, self.rewrite = inner.read, inner.summary, inner.take, inner.rewrite
