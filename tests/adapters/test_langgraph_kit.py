"""The LangGraph adapter has every fact of the adapter kit: in a graph of one's own and in `create_react_agent`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")
pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_anthropic")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from compaction_adapters.langgraph import CompactionNode, CompactionState, LangChainFormat
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, ScriptedTool, check_adapter
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, thread
from tests.adapters.langgraph_stage import react_agent
from tests.provider import LoopbackProvider

provider = langchain_core_stage.provider


class GraphConversation:
    """One thread of a graph."""

    def __init__(self, graph: Any, opening: Opening) -> None:
        self.graph = graph
        self.session_id = opening.conversation_id
        self.system = opening.system
        self.config = {**thread(opening.conversation_id), "recursion_limit": 200}

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


class GraphHarness:
    """A graph of a compaction node, a model node with a wrapped model, and tools; or `create_react_agent` of the same."""

    format = LangChainFormat()
    has_sync = has_streaming = True

    def __init__(self, provider: LoopbackProvider, kind: str, client: str, *, trim: bool = False) -> None:
        self.name = f"langgraph-{kind}-{client}"
        self.provider = provider
        self.kind = kind
        self.client = client
        self.trim = trim
        self.keeps_history = not trim

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncGenerator[GraphConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.client)(None, model=opening.model)
        try:
            yield GraphConversation(self._graph(model, opening), opening)
        finally:
            await stage.close()

    def _graph(self, model: Any, opening: Opening) -> Any:
        tools, node, calling = _tools(opening.tools), None, model
        if opening.controller is not None:
            node = CompactionNode(opening.controller, model=model, system=opening.system, tools=tools, trim=self.trim)
            calling = node.wrap(model)
        if self.kind == "react":
            saver = InMemorySaver()
            return react_agent(calling, tools, prompt=opening.system, pre_model_hook=node, checkpointer=saver)
        return _graph(calling.bind_tools(tools) if tools else calling, node, tools, opening.system)


class ModelInput(MessagesState, CompactionState):
    """What the model node reads."""


def _graph(model: Any, node: CompactionNode | None, tools: Sequence[Any], system: str) -> Any:
    def call(state: ModelInput) -> dict[str, Any]:
        return {"messages": [model.invoke(_asked(state, system))]}

    async def acall(state: ModelInput) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(_asked(state, system))]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", RunnableLambda(call, acall), input_schema=ModelInput)
    builder.add_node("compact", node or (lambda state: {}))
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "compact")
    return builder.compile(checkpointer=InMemorySaver())


def _asked(state: ModelInput, system: str) -> list[BaseMessage]:
    return [SystemMessage(system), *(state.get("llm_input_messages") or state["messages"])]


def _tools(tools: Sequence[ScriptedTool]) -> list[StructuredTool]:
    def run(tool: ScriptedTool) -> Any:
        return lambda **arguments: tool.run(arguments)

    return [
        StructuredTool(name=tool.name, description=tool.description, args_schema=dict(tool.parameters), func=run(tool))
        for tool in tools
    ]


@pytest.mark.parametrize(("kind", "client"), [("graph", "openai"), ("react", "anthropic")])
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, client: str, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, kind, client), provider, fact)


@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_a_node_that_trims_has_every_fact_but_a_whole_history(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, "graph", "openai", trim=True), provider, fact)
