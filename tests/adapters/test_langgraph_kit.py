"""LangGraph's nodes: the checks of every adapter, methods by hand and the recall tool."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.langgraph import BaseStoreRecordStore, CompactionNode
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore

from compaction_hooks import CompactionEvent
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import by_hand, compact_scene
from tests.adapters.by_hand_rows import Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    Stage,
    both_ways,
    say,
    spoken,
    step_by_step,
    texts,
    thread,
)
from tests.adapters.langchain_kit_stage import GraphHarness
from tests.adapters.langgraph_stage import Model, calls, chat_graph, node_of, react_agent, wrapped_graph
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall, read_page
from tests.adapters.stage import PATTERNS, recorded_script
from tests.cases import sampled_rows
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, LoopbackProvider


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


@by_host_facts(kind=["graph", "react", "trim"])
def test_the_host_has_its_say(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(harness(provider, kind), provider, fact)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(harness(provider, "graph"), provider, recorded_script(pattern))


@pytest.mark.parametrize("check", by_hand.CHECKS, ids=lambda check: check.__name__)
async def test_manual_changes_of_a_thread(stage: Stage, check: Any) -> None:
    def process(saver: Any, **keywords: Any) -> tuple[Any, Any]:
        compact = CompactionNode(context_window=WINDOW, **keywords)
        return compact, wrapped_graph(compact, stage.openai(), checkpointer=saver)

    await check(process, by_hand.side_of(stage), "async", "compaction_records")


@both_ways
async def test_a_forgotten_thread_is_gone_from_the_store_with_its_subgraphs(how: str) -> None:
    store = BaseStoreRecordStore(InMemoryStore())
    compact = CompactionNode(context_window=WINDOW, **by_hand.above_the_trigger(), store=store)
    builder = StateGraph(MessagesState).add_node("inner", chat_graph(compact, Model())).add_edge(START, "inner")
    outer: Any = builder.compile(checkpointer=InMemorySaver())
    for graph in (outer, chat_graph(compact, Model(), checkpointer=InMemorySaver())):
        graph.invoke(by_hand.TALK, thread())
        assert store.session_ids()
        await by_hand.do(how, compact, "forget", graph, thread())
        assert store.session_ids() == []


@both_ways
async def test_rows_of_a_node(stage: Stage, tmp_path: Path, how: str) -> None:
    saver = InMemorySaver()

    def new_process(**keywords: Any) -> Process:
        compact = CompactionNode(context_window=WINDOW, **keywords)
        graph: Any = wrapped_graph(compact, stage.openai(), checkpointer=saver)
        run = Twin(graph.invoke, graph.ainvoke, by_hand.LONG_TALK, thread())
        return Process(compact, run, list, (graph, thread()))

    await check_rows(how, tmp_path, by_hand.side_of(stage), new_process, by_hand.LONG_TALK["messages"][0])


async def test_an_interrupted_run_goes_on_after_a_manual_compaction(stage: Stage) -> None:
    side, compact = stage.side(Answer("Yes.")), node_of()
    graph = wrapped_graph(compact, stage.openai(), checkpointer=InMemorySaver(), interrupt_before=["model"])
    graph.invoke({"messages": spoken(4)}, thread())
    await compact.compact(graph, thread(), **by_hand.CALLED_WITH)
    assert graph.get_state(thread()).next == ("model",)
    assert graph.invoke(None, thread())["messages"][-1].text == "Yes."
    assert SECRET in texts(side.model_requests[-1].messages)


@pytest.mark.parametrize(
    ("how", "version", "recall"),
    [
        pytest.param("sync", "v1", True, id="tools of the state"),
        pytest.param("streamed", "v2", True, id="streamed, tools by Send"),
        pytest.param("sync", "v2", False, id="without the tool", marks=pytest.mark.full),
    ],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, how: str, version: str, recall: bool
) -> None:
    compact = CompactionNode(context_window=WINDOW, recall=recall, notice=NOTICE)
    model = compact.wrap(stage.openai())
    agent = react_agent(model, [read_page, *compact.tools], pre_model_hook=compact, version=version)
    config = {**thread(), "recursion_limit": 200}
    await check_recall(stage.side(), lambda: say(agent, REQUEST, how, config), recall)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    compact = CompactionNode(context_window=WINDOW, compact=True, on_event=events.append)
    agent = react_agent(compact.wrap(stage.openai()), [read_leaf, *compact.tools], pre_model_hook=compact)
    config = {**thread(), "recursion_limit": 200}
    await check_compact(stage.side(), lambda: say(agent, compact_scene.REQUEST, "sync", config), events)


@pytest.mark.parametrize(("how", "version"), sampled_rows([("sync", "v1"), ("async", "v2")], 1))
async def test_a_thread_that_goes_on_in_another_process_recalls(stage: Stage, how: str, version: str) -> None:
    """The records come from the checkpoint, also if the tool is the first thing that runs there."""
    model, saver = stage.openai(), InMemorySaver()

    def start() -> Any:
        compact = CompactionNode(context_window=WINDOW, recall=True)
        tools = [read_page, *compact.tools]
        saved: Any = {"checkpointer": saver, "interrupt_before": ["tools"], "version": version}
        return react_agent(compact.wrap(model), tools, pre_model_hook=compact, **saved)

    await check_recall(stage.side(), lambda: step_by_step(start, REQUEST, how), is_told=False)


def test_recall_excludes_trim() -> None:
    with pytest.raises(ConfigurationError, match="exclude one another"):
        CompactionNode(context_window=WINDOW, recall=True, trim=True)
