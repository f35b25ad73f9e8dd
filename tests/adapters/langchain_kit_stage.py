"""What the kits of the LangChain and the LangGraph adapter share: a thread of a graph, and the kit's tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool

from compaction_hooks.testing import Opening, ScriptedTool
from tests.adapters.langchain_core_stage import thread


class GraphConversation:
    """One thread of a graph, an agent among them."""

    def __init__(self, graph: Any, opening: Opening) -> None:
        self.graph = graph
        self.session_id = opening.conversation_id
        self.system = opening.system
        self.config = {**thread(opening.conversation_id), "recursion_limit": 2_000}

    async def say(self, text: str, /) -> str:
        return _last(await self.graph.ainvoke(_said(text), self.config))

    def say_sync(self, text: str, /) -> str:
        return _last(self.graph.invoke(_said(text), self.config))

    async def say_streamed(self, text: str, /) -> list[str]:
        stream = self.graph.astream(_said(text), self.config, stream_mode="messages")
        return [chunk.text async for chunk, _ in stream if isinstance(chunk, AIMessageChunk) and chunk.text]

    async def history(self) -> list[BaseMessage]:
        state = await self.graph.aget_state(self.config)
        return [SystemMessage(self.system), *state.values["messages"]]


def _said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def _last(result: dict[str, Any]) -> str:
    return str(result["messages"][-1].text)


def tools_of(tools: Sequence[ScriptedTool]) -> list[StructuredTool]:
    def run(tool: ScriptedTool) -> Any:
        return lambda **arguments: tool.run(arguments)

    return [
        StructuredTool(name=tool.name, description=tool.description, args_schema=dict(tool.parameters), func=run(tool))
        for tool in tools
    ]
