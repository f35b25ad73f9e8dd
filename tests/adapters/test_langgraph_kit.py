"""The LangGraph adapter has every fact of the adapter kit: in a graph of one's own and in `create_react_agent`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode, CompactionState, LangChainFormat
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage
from tests.adapters.langchain_kit_stage import GraphConversation, tools_of
from tests.adapters.langgraph_stage import react_agent
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.data import needs_data
from tests.provider import LoopbackProvider

provider = langchain_core_stage.provider


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
        tools, node, calling = tools_of(opening.tools), None, model
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


@pytest.mark.parametrize(
    ("kind", "client"), [("graph", "openai"), pytest.param("react", "anthropic", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, client: str, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, kind, client), provider, fact)


@pytest.mark.full
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_a_node_that_trims_has_every_fact_but_a_whole_history(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, "graph", "openai", trim=True), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(GraphHarness(provider, "graph", "openai"), provider, recorded_script(pattern))
