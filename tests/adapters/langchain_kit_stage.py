"""Threads of a graph, agents among them, and tools, for the kits of the LangChain and the LangGraph adapter."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from compaction_adapters.langchain_core import LangChainFormat
from langchain_core.messages import AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.tools import StructuredTool

from compaction_hooks.testing import Opening, ScriptedTool
from tests.adapters.langchain_core_stage import Stage, said, thread
from tests.provider import LoopbackProvider


class GraphConversation:
    def __init__(self, graph: Any, opening: Opening) -> None:
        self.graph = graph
        self.session_id = opening.conversation_id
        self.system = opening.system
        self.config = {**thread(opening.conversation_id), "recursion_limit": 2_000}

    async def say(self, text: str, /) -> str:
        return str((await self.graph.ainvoke(said(text), self.config))["messages"][-1].text)

    def say_sync(self, text: str, /) -> str:
        return str(self.graph.invoke(said(text), self.config)["messages"][-1].text)

    async def say_streamed(self, text: str, /) -> list[str]:
        stream = self.graph.astream(said(text), self.config, stream_mode="messages")
        return [chunk.text async for chunk, _ in stream if isinstance(chunk, AIMessageChunk) and chunk.text]

    async def history(self) -> list[BaseMessage]:
        state = await self.graph.aget_state(self.config)
        return [SystemMessage(self.system), *state.values["messages"]]


Build = Callable[[Any, Sequence[StructuredTool], Opening], Any]
"""Returns the graph of a conversation: (model, tools, opening)."""


class GraphHarness:
    format = LangChainFormat()
    has_sync = has_streaming = True

    def __init__(self, provider: LoopbackProvider, client: str, build: Build, *, keeps_history: bool = True) -> None:
        self.name = client
        self.provider = provider
        self.client = client
        self.build = build
        self.keeps_history = keeps_history

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncGenerator[GraphConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.client)(None, model=opening.model)
        try:
            yield GraphConversation(self.build(model, [*map(_tool, opening.tools)], opening), opening)
        finally:
            await stage.close()


def _tool(tool: ScriptedTool) -> StructuredTool:
    schema = dict(tool.parameters)
    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=schema, func=lambda **arguments: tool.run(arguments)
    )
