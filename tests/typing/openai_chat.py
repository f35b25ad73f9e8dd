"""A program on the openai client, chat completions: its own types go in and come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.shared_params import FunctionDefinition

from compaction_hooks import CompactionController, CompactionPlan, CompactionRecord, CompactionResult, project

if TYPE_CHECKING:
    from typing import assert_type

hooks = CompactionController(model="gpt-5", context_window=128_000)
messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Port the parser."}]


def answer(client: OpenAI) -> ChatCompletion:
    """Ask with the view, and with the call inside."""
    view = hooks.transform_context_sync(messages)
    assert_type(view, list[ChatCompletionMessageParam])
    client.chat.completions.create(model="gpt-5", messages=view)
    return hooks.call_sync(messages, lambda view: client.chat.completions.create(model="gpt-5", messages=view))


async def answer_later(client: AsyncOpenAI) -> str | None:
    """As `answer`, awaited, in a conversation of its own."""
    session = hooks.session("thread-1")
    view = await session.transform_context(messages, max_output_tokens=4_096)
    given = await session.call(messages, lambda view: client.chat.completions.create(model="gpt-5", messages=view))
    assert_type(given, ChatCompletion)
    session.pin(view[0])
    compacted = await session.compact(messages, focus="the parser")
    messages[:] = compacted.messages
    return given.choices[0].message.content


async def planned() -> int:
    """Look at a compaction before it is paid for."""
    plan = await hooks.preview(messages, plan_only=True)
    assert_type(plan, CompactionPlan)
    assert_type(hooks.preview_sync(messages, plan_only=True), CompactionPlan)
    seen = await hooks.preview(messages)
    assert_type(seen, CompactionResult[ChatCompletionMessageParam])
    assert_type(hooks.preview_sync(messages), CompactionResult[ChatCompletionMessageParam])
    return plan.tokens_after


async def recover(client: AsyncOpenAI, error: Exception) -> list[ChatCompletionMessageParam]:
    """Shorten after an overflow that the program caught."""
    return await hooks.recover(error, messages)


def stored(record: CompactionRecord) -> list[ChatCompletionMessageParam]:
    """Show a stored record."""
    return project(messages, record)


def with_recall(client: OpenAI) -> ChatCompletion:
    """Offer the recall tool."""
    recall = hooks.recall_tool(lambda: messages)
    function: FunctionDefinition = {
        "name": recall.name,
        "description": recall.description,
        "parameters": recall.parameters,
    }
    tool: ChatCompletionToolParam = {"type": "function", "function": function}
    return client.chat.completions.create(model="gpt-5", messages=messages, tools=[tool])


def with_answers(client: OpenAI) -> None:
    """Answers are put into the list as the client gave them."""
    mixed: list[ChatCompletionMessageParam | ChatCompletionMessage] = [*messages]
    mixed.append(answer(client).choices[0].message)
    assert_type(hooks.transform_context_sync(mixed), list[ChatCompletionMessageParam | ChatCompletionMessage])
