"""`repair`, in the settings or in one call: a broken history is repaired before it is sent."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, Usage
from compaction_hooks.formats import BedrockConverseFormat, OpenAIChatFormat
from compaction_hooks.validity import problems
from tests.conversations import Chat, Scripted, assistant, call, controller, steps, texts, tool, user


def broken(count: int) -> list[Chat]:
    """Return a run that crashed during two tool calls and continued, and a result whose tool call is lost."""
    crashed = assistant(None, call("a", path="a.py"), call("b", path="b.py"))
    return [
        user("go"),
        *steps(count, 300),
        crashed,
        user("go on"),
        tool("lost", "of a call nobody made"),
        assistant("Yes."),
    ]


def find_breaches(messages: list[Mapping[str, object]]) -> list[str]:
    """Return the rules of OpenAI that these messages break."""
    return [problem.rule for problem in problems([OpenAIChatFormat().read(m)[0] for m in messages], "openai_chat")]


def test_a_broken_history_is_repaired_on_request_on_every_path() -> None:
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
    assert [find_breaches(view) for view in (*sent, *views)] == [[]] * 6
    assert json.dumps([short, long]) == before


def test_repair_is_a_setting_that_a_call_can_switch_off() -> None:
    messages = broken(2)
    hooks = controller(settings=CompactionSettings(repair=True))
    assert find_breaches(hooks.transform_context_sync(messages)) == []
    assert hooks.transform_context_sync(messages, repair=False) is messages


def test_a_repaired_view_is_the_same_on_the_next_call() -> None:
    messages = broken(2)
    hooks = controller(settings=CompactionSettings(repair=True))
    first = texts(hooks.transform_context_sync(messages))
    longer = texts(hooks.transform_context_sync([*messages, user("and then?")]))
    assert longer.startswith(first[:-1])


def test_usage_is_reported_for_the_repaired_view() -> None:
    hooks = controller(settings=CompactionSettings(repair=True))
    view = hooks.transform_context_sync(broken(2))
    hooks.report_usage(Usage(input_tokens=1_234), view)
    assert hooks.state().context_tokens == 1_234


def test_the_assistant_speaks_once_around_a_result_that_is_dropped() -> None:
    orphan = {"toolResult": {"toolUseId": "gone", "content": [{"text": "late"}]}}
    said: list[Any] = [
        {"role": "user", "content": [{"text": "Go."}]},
        {"role": "assistant", "content": [{"text": "Reading."}]},
        {"role": "user", "content": [orphan]},
        {"role": "assistant", "content": [{"text": "Done."}]},
        {"role": "user", "content": [{"text": "And now?"}]},
    ]
    hooks: Any = CompactionController(format=BedrockConverseFormat(), context_window=100_000)
    view = hooks.transform_context_sync(said, repair=True)
    answer = {"role": "assistant", "content": [{"text": "Reading."}, {"text": "Done."}]}
    assert view == [said[0], answer, said[4]]


@pytest.mark.parametrize(
    ("model", "kept"), [("us.anthropic.claude-opus-4-6-v1", 0), ("amazon.nova-pro-v1:0", 1), (None, 1)]
)
def test_reasoning_that_the_model_would_refuse_is_left_out(model: str | None, kept: int) -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "Written by another model."}}}
    said: list[Any] = [
        {"role": "user", "content": [{"text": "Go."}]},
        {"role": "assistant", "content": [thought, {"text": "Done."}]},
        {"role": "user", "content": [{"text": "And now?"}]},
    ]
    hooks: Any = CompactionController(format=BedrockConverseFormat(), context_window=100_000)
    view = hooks.transform_context_sync(said, model=model, repair=True)
    assert str(view).count("another model") == kept


def test_after_a_switch_to_deepseek_tool_calls_have_the_reasoning_that_it_asks_for() -> None:
    """ "The `reasoning_content` in the thinking mode must be passed back to the API.": an empty one is accepted."""
    own = {**assistant(None, call("own", path="a.py")), "reasoning_content": "I read it."}
    messages = [user("go"), *steps(40, 300), own, tool("own", "x = 1"), assistant("It is 1."), user("And now?")]
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(repair=True))
    first = hooks.transform_context_sync(messages, model="gpt-5")
    view = hooks.transform_context_sync(messages, model="deepseek/deepseek-v4-pro")
    assert len(first) == len(view) < len(messages)  # the summary stays true of the list
    calling = [message for message in view if message.get("tool_calls")]
    assert [message.get("reasoning_content") for message in calling] == [""] * (len(calling) - 1) + ["I read it."]
    assert [message for message in view if "reasoning_content" in message and not message.get("tool_calls")] == []
    assert hooks.transform_context_sync(messages, model="gpt-5") == first
    assert "reasoning_content" not in str(messages[:-4])


def test_a_repaired_list_has_the_hosts_present_objects() -> None:
    """Equal messages may have taken the place of former ones, as in a list that is loaded in parts."""
    hooks = controller(settings=CompactionSettings(repair=True))
    messages = [user("Go."), assistant("Going."), user("Go on."), assistant("Gone."), user("More.")]
    hooks.transform_context_sync(messages)
    messages[1:4] = deepcopy(messages[1:4])
    hooks.transform_context_sync(messages)

    messages += [assistant("Reading.", call("a")), user("And?")]
    view = hooks.transform_context_sync(messages)
    assert [any(one is message for one in view) for message in messages] == [True] * 7
    assert len(view) == 8
