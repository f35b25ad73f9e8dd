"""One conversation has one digest chain, as OpenAI chat dicts and as tinyagent's messages: a record applies to both."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("tinyagent")

from compaction_adapters.tinyagent import TinyAgentFormat
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIChatFormat
from tests.adapters.same_chain import CONVERSATIONS, chain
from tests.conversations import Scripted, assistant, call, tool, user
from tests.data import needs_data, sessions

Chat = Mapping[str, Any]


def as_tinyagent(messages: Sequence[Chat]) -> list[AgentMessage]:
    """The same conversation as tinyagent holds it: its system prompt is no message."""
    return [_message(message) for message in messages if message["role"] != "system"]


def _message(message: Chat) -> AgentMessage:
    if message["role"] == "tool":
        is_error = message.get("is_error") is True
        return ToolResultMessage(tool_call_id=message["tool_call_id"], content=_blocks(message), is_error=is_error)
    if message["role"] == "user":
        return UserMessage(content=_blocks(message))
    texts = [block for block in _blocks(message) if isinstance(block, TextContent)]
    return AssistantMessage(content=[*texts, *(_call(call) for call in message.get("tool_calls") or ())])


def _blocks(message: Chat) -> list[TextContent | ImageContent]:
    content: Any = message.get("content") or []
    blocks: Sequence[Chat] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [
        TextContent(text=block["text"]) if block["type"] == "text" else ImageContent(url=block["image_url"]["url"])
        for block in blocks
    ]


def _call(call: Chat) -> ToolCallContent:
    """A call; tinyagent leaves arguments that are no JSON object as the text they are."""
    name, text = call["function"]["name"], call["function"]["arguments"]
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return ToolCallContent(id=call["id"], name=name, arguments=arguments)
    return ToolCallContent.model_construct(type="tool_call", id=call["id"], name=name, arguments=text)


def same_chain(messages: Sequence[Chat]) -> int:
    """Assert that both forms have one chain; return how long it is."""
    wanted = chain(OpenAIChatFormat(), messages)
    assert chain(TinyAgentFormat(), as_tinyagent(messages)) == wanted
    return len(wanted)


@needs_data
def test_recorded_sessions_have_the_same_chain() -> None:
    assert sum(same_chain(session["messages"]) for session in itertools.islice(sessions(), 0, None, 6)) > 2_000


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_a_generated_conversation_has_the_same_chain(messages: list[Chat]) -> None:
    assert same_chain(messages) > 1


def test_thinking_usage_and_what_the_answer_was_cut_into_do_not_matter() -> None:
    said = [user("Go."), assistant("One and two.", call("c", path="a")), tool("c", "read"), assistant("Done.")]
    messages = as_tinyagent(said)
    messages[1] = AssistantMessage(
        content=[
            ThinkingContent(thinking="hm", thinking_signature="sig"),
            TextContent(text="One "),
            None,
            TextContent(text="and two."),
            ToolCallContent(id="another id", name="read_file", arguments={"path": "a"}),
        ],
        usage={"input": 10, "output": 2},
        model="m",
    )
    messages[2] = ToolResultMessage(
        tool_call_id="another id", tool_name="read_file", content=[TextContent(text="read")]
    )
    assert chain(TinyAgentFormat(), messages) == chain(OpenAIChatFormat(), said)


@needs_data
def test_a_record_made_on_one_form_applies_to_the_other() -> None:
    session = next(session for session in sessions("entire*") if len(session["messages"]) > 200)
    made = CompactionController(context_window=16_384).session("made")
    view = made.transform_context_sync(session["messages"])
    asked = Scripted()
    other = CompactionController(context_window=16_384, summarizer=asked).session("other", format=TinyAgentFormat())
    other.import_records(made.export_records())
    first = other.transform_context_sync(as_tinyagent(session["messages"]))[0]
    assert isinstance(first, UserMessage)
    assert not asked.requests
    summary = next(message for message in view if message["role"] != "system")
    assert first.content == [TextContent(text=str(summary["content"]))]
