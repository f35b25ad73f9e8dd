"""The LangGraph adapter has every fact of the adapter kit: in a graph of one's own and in `create_react_agent`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters.langchain_kit_stage import GraphHarness
from tests.adapters.langgraph_stage import calls, react_agent
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.data import needs_data
from tests.provider import LoopbackProvider


def graph(model: Any, tools: Sequence[Any], opening: Opening, *, is_react: bool = False, trim: bool = False) -> Any:
    """Return a graph of a compaction node, a model node with a wrapped model, and tools; or `create_react_agent` of the same."""
    node, saver = None, InMemorySaver()
    if opening.controller is not None:
        node = CompactionNode(opening.controller, model=model, system=opening.system, tools=tools, trim=trim)
        model = node.wrap(model)
    if is_react:
        return react_agent(model, tools, prompt=opening.system, pre_model_hook=node, checkpointer=saver)
    model = model.bind_tools(tools) if tools else model
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("model", calls(model, before=[SystemMessage(opening.system)]))
    builder.add_node("compact", node or (lambda state: {})).add_node("tools", ToolNode(tools))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile(checkpointer=saver)


def harness(provider: LoopbackProvider, kind: str) -> GraphHarness:
    match kind:
        case "react":
            return GraphHarness(provider, "anthropic", partial(graph, is_react=True))
        case "trim":
            return GraphHarness(provider, "openai", partial(graph, trim=True), keeps_history=False)
        case _:
            return GraphHarness(provider, "openai", graph)


KINDS = ["graph", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("react", "trim"))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(harness(provider, kind), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(harness(provider, "graph"), provider, recorded_script(pattern))
