"""`CompactionNode.compact`, `undo`, `pin`, `load` and `forget` on a thread, async."""

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.langgraph import BaseStoreRecordStore, CompactionNode
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.adapters import by_hand
from tests.adapters.by_hand_rows import Process, check_rows
from tests.adapters.langchain_core_stage import SECRET, WINDOW, Stage, both_ways, spoken, texts, thread
from tests.adapters.langgraph_stage import Model, chat_graph, node_of, wrapped_graph
from tests.provider import Answer


@pytest.mark.parametrize("check", by_hand.CHECKS, ids=lambda check: check.__name__)
async def test_manual_changes_of_a_thread(stage: Stage, check: Any) -> None:
    def process(saver: Any, **keywords: Any) -> tuple[Any, Any]:
        compact = CompactionNode(context_window=WINDOW, **keywords)
        return compact, wrapped_graph(compact, stage.openai(), checkpointer=saver)

    await check(process, by_hand.side_of(stage), "async", "compaction_records")


@both_ways
async def test_a_forgotten_thread_is_gone_from_the_store_with_its_subgraphs(how: str) -> None:
    items = InMemoryStore()
    compact = CompactionNode(context_window=WINDOW, **by_hand.above_the_trigger(), store=BaseStoreRecordStore(items))
    builder = StateGraph(MessagesState).add_node("inner", chat_graph(compact, Model())).add_edge(START, "inner")
    outer: Any = builder.compile(checkpointer=InMemorySaver())
    for graph in (outer, chat_graph(compact, Model(), checkpointer=InMemorySaver())):
        graph.invoke(by_hand.TALK, thread())
        assert items.search(("compaction_records",))
        await by_hand.do(how, compact, "forget", graph, thread())
        assert items.search(("compaction_records",)) == []


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
