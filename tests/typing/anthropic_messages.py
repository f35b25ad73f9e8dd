"""A program on the anthropic client: its own types go in and come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolParam

from compaction_hooks import CompactionController
from compaction_hooks.formats import AnthropicFormat

if TYPE_CHECKING:
    from typing import assert_type

MODEL = "claude-sonnet-4-5"
hooks = CompactionController(model=MODEL)
named = CompactionController(model=MODEL, format=AnthropicFormat())
messages: list[MessageParam] = [{"role": "user", "content": "Port the parser."}]


def answer(client: Anthropic) -> Message:
    """Ask with the view, and with the call inside."""
    view = named.transform_context_sync(messages, system="You are brief.")
    assert_type(view, list[MessageParam])
    client.messages.create(model=MODEL, max_tokens=1_024, messages=view)
    return hooks.call_sync(
        messages,
        lambda view: client.messages.create(model=MODEL, max_tokens=1_024, messages=view),
        max_output_tokens=1_024,
    )


def with_recall(client: Anthropic) -> Message:
    """Offer the recall tool."""
    recall = hooks.recall_tool(lambda: messages)
    tool: ToolParam = {
        "name": recall.name,
        "description": recall.description,
        "input_schema": recall.parameters,
    }
    return client.messages.create(model=MODEL, max_tokens=1_024, messages=messages, tools=[tool])


async def answer_later(client: AsyncAnthropic) -> None:
    """As `answer`, awaited; the answer goes into the list as the client gave it."""
    given = await hooks.call(
        messages, lambda view: client.messages.create(model=MODEL, max_tokens=1_024, messages=view)
    )
    assert_type(given, Message)
    messages.append({"role": "assistant", "content": given.content})
