"""What the tests of the LangChain adapter share beside models and conversations: agents, and what they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_core_stage import WINDOW, CountingSummarizer, Stage, kinds_of, listing, thread
from tests.provider import Side

QUESTION = "Which voucher is missing?"


class Answering(AgentMiddleware[Any, Any, Any]):
    """Keeps the views, and answers in place of a model."""

    def __init__(self) -> None:
        self.views: list[list[BaseMessage]] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.views.append(request.messages)
        return ModelResponse(result=[AIMessage("Fine.")])


def agent_of(
    stage: Stage, *inside: Any, tools: Sequence[Any] = (), window: int | None = WINDOW, **keywords: Any
) -> Any:
    middleware = [CompactionMiddleware(**keywords), *inside]
    return create_agent(stage.openai(window), tools, middleware=middleware, checkpointer=InMemorySaver())


def view_of(stage: Stage, messages: Sequence[BaseMessage], **keywords: Any) -> list[BaseMessage]:
    """What a model would be sent for this history."""
    answering = Answering()
    keywords = {"summarizer": CountingSummarizer(), **keywords}
    agent_of(stage, answering, **keywords).invoke({"messages": list(messages)}, thread())
    return answering.views[0]


def ask() -> HumanMessage:
    """The question, anew: a reducer gives each message an id, and takes equal ids for the same message."""
    return HumanMessage(QUESTION)


def tokens_of(messages: Sequence[BaseMessage]) -> int:
    """A rough count: LangChain's tests use four characters, too."""
    return sum(len(str(message.content)) for message in messages) // 4


def assert_no_orphans(view: Sequence[BaseMessage]) -> None:
    calls = [call["id"] for message in view if isinstance(message, AIMessage) for call in message.tool_calls]
    results = [message.tool_call_id for message in view if isinstance(message, ToolMessage)]
    assert sorted(filter(None, calls)) == sorted(results)


def calls_of(*ids: str, text: str = "") -> AIMessage:
    tool_calls = [{"name": "read_file", "args": {"path": id}, "id": id, "type": "tool_call"} for id in ids]
    return AIMessage(text, tool_calls=tool_calls)


def result_of(id: str, text: str | None = None) -> ToolMessage:
    return ToolMessage(listing(id) if text is None else text, tool_call_id=id, name="read_file")


def summaries_in(side: Side) -> int:
    return kinds_of(side.requests).count(True)
