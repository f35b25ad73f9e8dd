"""The LangChain adapter has every fact of the adapter kit, with the clients of OpenAI and of Anthropic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_anthropic")
pytest.importorskip("uvicorn")

from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, ScriptedTool, check_adapter
from tests.adapters import langchain_stage
from tests.adapters.langchain_stage import Stage, thread
from tests.provider import LoopbackProvider

provider = langchain_stage.provider


class AgentConversation:
    """One thread of an agent."""

    def __init__(self, agent: Any, opening: Opening) -> None:
        self.agent = agent
        self.session_id = opening.conversation_id
        self.system = opening.system
        self.config = thread(opening.conversation_id)

    async def say(self, text: str, /) -> str:
        return _last(await self.agent.ainvoke(_said(text), self.config))

    def say_sync(self, text: str, /) -> str:
        return _last(self.agent.invoke(_said(text), self.config))

    async def say_streamed(self, text: str, /) -> list[str]:
        stream = self.agent.astream(_said(text), self.config, stream_mode="messages")
        return [chunk.text async for chunk, _ in stream if isinstance(chunk, AIMessageChunk) and chunk.text]

    async def history(self) -> list[BaseMessage]:
        state = await self.agent.aget_state(self.config)
        return [SystemMessage(self.system), *state.values["messages"]]


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _last(result: dict[str, Any]) -> str:
    return str(result["messages"][-1].text)


class AgentHarness:
    """`create_agent` with an in-memory checkpointer, and one kind of model."""

    format = LangChainFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, kind: str) -> None:
        self.name = f"langchain-{kind}"
        self.provider = provider
        self.kind = kind

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.kind)(None, model=opening.model)
        middleware = [CompactionMiddleware(opening.controller)] if opening.controller else []
        tools = _tools(opening.tools)
        agent = create_agent(
            model, tools, system_prompt=opening.system, middleware=middleware, checkpointer=InMemorySaver()
        )
        try:
            yield AgentConversation(agent, opening)
        finally:
            await stage.close()


def _tools(tools: Sequence[ScriptedTool]) -> list[StructuredTool]:
    def run(tool: ScriptedTool) -> Any:
        return lambda **arguments: tool.run(arguments)

    return [
        StructuredTool(name=tool.name, description=tool.description, args_schema=dict(tool.parameters), func=run(tool))
        for tool in tools
    ]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, kind), provider, fact)
