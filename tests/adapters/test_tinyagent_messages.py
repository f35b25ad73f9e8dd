"""tinyagent's messages: the contract of a format, the digests of the same conversation as chat dicts, repair, merging, usage."""

from collections.abc import Callable
from typing import Any

import pytest
from compaction_adapters.tinyagent import TinyAgentFormat, usage_of
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    CacheControl,
    CustomAgentMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_hooks import CompactionSettings
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.repair import INTERRUPTED, repaired
from compaction_hooks.testing import check_format
from tests.adapters import repair_dialects
from tests.adapters.repair_dialects import check_broken_histories, check_same_chain, check_whole_histories
from tests.adapters.tinyagent_stage import Stage, turns
from tests.cases import folded
from tests.provider import LoopbackProvider
from tests.repairs import Dialect

DIALECT = repair_dialects.tinyagent()
FORMAT = TinyAgentFormat()
MARK = CacheControl(type="ephemeral")
IMAGE = ImageContent(url="https://example.org/a.png", mime_type="image/png")
CALL = ToolCallContent(id="a", name="read", arguments={"path": "a", "content": "x" * 500})
ASKED = AssistantMessage(content=[TextContent(text="so"), None, CALL])


# -- the contract


def test_the_contract_of_a_format_holds() -> None:
    samples: list[AgentMessage] = [
        UserMessage(content=[TextContent(text="look"), IMAGE]),
        AssistantMessage(
            content=[ThinkingContent(thinking="hm", thinking_signature="sig"), *ASKED.content],
            stop_reason="tool_calls",
            usage={"input": 120, "output": 4, "cache_read": 100, "cache_write": 0, "total_tokens": 124},
            model="m",
        ),
        ToolResultMessage(tool_call_id="a", tool_name="write", content=[TextContent(text="done")], is_error=True),
        CustomAgentMessage(role="note"),
        *DIALECT.asks("so", [("b", 1)], True),
        *DIALECT.tells([("b", 1)]),
    ]
    check_format(FORMAT, samples)


def test_a_rewritten_text_keeps_its_marks_and_its_neighbors() -> None:
    long = TextContent(text="long", cache_control=MARK)
    message = UserMessage(content=[long, IMAGE])
    copy = FORMAT.rewrite(message, {(0, 0): "cut"})
    assert isinstance(copy, UserMessage)
    assert copy.content[0] == TextContent(text="cut", cache_control=MARK)
    assert copy.content[1] is IMAGE
    assert message.content[0] is long


def test_parts_are_addressed_without_the_holes_of_a_message() -> None:
    assert FORMAT.read(FORMAT.rename(ASKED, {(0, 1): "b"}))[0].calls[0].id == "b"
    assert FORMAT.read(FORMAT.drop(ASKED, [(0, 0)]))[0].parts == FORMAT.read(ASKED)[0].parts[1:]


def test_a_message_of_another_class_is_not_changed() -> None:
    note = CustomAgentMessage(role="note")
    assert FORMAT.drop(note, [(0, 0)]) is note
    assert FORMAT.rename(note, {(0, 0): "b"}) is note


def test_wrong_use_is_told() -> None:
    with pytest.raises(FormatError, match="message models"):
        FORMAT.read({"role": "user", "content": "hi"})  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigurationError, match="names no tool call"):
        FORMAT.answer(ASKED, (0, 0), "no")


USAGE = {"input": 100, "output": 4, "cache_read": 50, "cache_write": 7}


@folded(
    "usage, api, whole",
    {
        "cached inside the input": ({**USAGE, "total_tokens": 104}, None, 100),
        "more cached than input": ({**USAGE, "input": 20, "total_tokens": 81}, None, 77),
        "in addition, by the total": ({**USAGE, "total_tokens": 161}, None, 157),
        "in addition, by the API": ({**USAGE, "total_tokens": 104}, "anthropic-messages", 157),
        "an error's zeros": ({"input": 0, "output": 0, "total_tokens": 0}, None, 0),
        "no usage": (None, None, None),
        "no fields": ({}, None, None),
        "no numbers": ({"cost": {"total": 0.1}}, None, None),
    },
)
def test_cached_tokens_are_counted_once(usage: dict[str, Any] | None, api: str | None, whole: int | None) -> None:
    """OpenAI-like providers count cached tokens inside the input, Anthropic-like ones in addition."""
    read = usage_of(usage, api)
    assert (read and read.input_tokens) == whole


# -- repair


@pytest.mark.parametrize("check", [check_broken_histories, check_whole_histories, check_same_chain])
def test_histories(check: Callable[[Dialect], None]) -> None:
    check(DIALECT)


def test_a_call_without_a_result_gets_a_failed_one() -> None:
    messages: list[AgentMessage] = [UserMessage(content=[TextContent(text="hi")]), ASKED]
    result = ToolResultMessage(
        tool_call_id="a", tool_name="read", is_error=True, content=[TextContent(text=INTERRUPTED)]
    )
    assert repaired(messages, FORMAT) == [*messages, result.model_copy(update={"timestamp": None})]


# -- merging


@folded("merges, refused", {"merged": (True, ""), "as they are": (False, "Conversation roles must alternate")})
async def test_a_summary_and_the_request_after_it_are_sent_as_one(
    merges: bool, refused: str, provider: LoopbackProvider
) -> None:
    stage = Stage(provider, "merge", context_window=8_192, settings=CompactionSettings(merge_user_messages=merges))
    stage.side.wants_turns = True
    stage.side.answers.clear()
    stage.agent.replace_messages(turns(10, 500))
    for text in ("Go on.", "And now?"):
        await stage.hook.prompt(stage.agent, text)
        assert refused in str(stage.agent.state.error or "")
    assert bool(stage.side.rejections) is not merges


def test_merged_messages_keep_the_places_of_images_and_cache_marks() -> None:
    view: list[AgentMessage] = [
        UserMessage(content=[IMAGE, TextContent(text="One.")]),
        UserMessage(content=[TextContent(text="Two.", cache_control=MARK)]),
        UserMessage(content=[TextContent(text="Three."), IMAGE]),
        AssistantMessage(content=[TextContent(text="Yes.")]),
    ]
    before = [message.model_copy(deep=True) for message in view]
    first, *others = merged = FORMAT.merge(view)
    assert others == view[3:]
    assert isinstance(first, UserMessage)
    two = TextContent(text="One.\n\nTwo.", cache_control=MARK)
    assert first.content == [IMAGE, two, TextContent(text="Three."), IMAGE]
    assert view == before
    assert FORMAT.merge(merged) is merged
