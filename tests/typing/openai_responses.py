"""A program on the openai client, Responses: its own types go in and come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openai import AsyncOpenAI, OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam

from compaction_hooks import CompactionController
from compaction_hooks.formats import OpenAIResponsesFormat

if TYPE_CHECKING:
    from typing import assert_type

hooks = CompactionController(model="gpt-5", format=OpenAIResponsesFormat())
items: list[ResponseInputItemParam] = [{"role": "user", "content": "Port the parser."}]


def answer(client: OpenAI) -> Response:
    """Ask with the view, and with the call inside."""
    view = hooks.transform_context_sync(items)
    assert_type(view, list[ResponseInputItemParam])
    client.responses.create(model="gpt-5", input=view)
    return hooks.call_sync(items, lambda view: client.responses.create(model="gpt-5", input=view))


def with_recall(client: OpenAI) -> Response:
    """Offer the recall tool."""
    recall = hooks.recall_tool(lambda: items)
    tool: FunctionToolParam = {
        "type": "function",
        "name": recall.name,
        "description": recall.description,
        "parameters": recall.parameters,
        "strict": False,
    }
    return client.responses.create(model="gpt-5", input=items, tools=[tool])


async def answer_later(client: AsyncOpenAI) -> str:
    """As `answer`, awaited."""
    given = await hooks.call(items, lambda view: client.responses.create(model="gpt-5", input=view))
    assert_type(given, Response)
    return given.output_text
