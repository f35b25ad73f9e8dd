"""`CompactionNode.compact`, `undo`, `pin`, `load` and `forget`: work by hand on a thread."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import BaseStoreRecordStore, CompactionNode
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.adapters import by_hand, langchain_core_stage
from tests.adapters.langchain_core_stage import WINDOW, Stage, spoken, thread
from tests.adapters.langgraph_stage import Model, chat_graph
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage
both_ways = pytest.mark.parametrize("how", ["sync", "async"])


def process_of(stage: Stage, **keywords: Any) -> by_hand.Process:
    def process(saver: Any) -> tuple[Any, Any]:
        compact = CompactionNode(context_window=WINDOW, **keywords)
        asked = compact.wrap(stage.openai())

        def model(state: MessagesState) -> dict[str, Any]:
            return {"messages": [asked.invoke(state["messages"])]}

        return compact, chat_graph(compact, model, model_input=MessagesState, checkpointer=saver)

    return process


@both_ways
async def test_what_is_done_by_hand_is_there_in_the_next_process(stage: Stage, how: str) -> None:
    await by_hand.check_that_work_by_hand_survives(process_of(stage), stage, how, "compaction_records")


@both_ways
async def test_an_undo_rests_in_the_next_process(stage: Stage, how: str) -> None:
    process = process_of(stage, **by_hand.ABOVE_THE_TRIGGER)
    await by_hand.check_that_an_undo_rests_in_the_next_process(process, stage, how)


@both_ways
async def test_a_thread_that_its_checkpointer_deleted_begins_anew(stage: Stage, how: str) -> None:
    process = process_of(stage, **by_hand.ABOVE_THE_TRIGGER)
    await by_hand.check_that_a_deleted_thread_begins_anew(process, stage, how)


@both_ways
async def test_a_thread_is_forgotten(stage: Stage, how: str) -> None:
    await by_hand.check_that_a_thread_is_forgotten(process_of(stage), stage, how)


async def test_a_forgotten_thread_is_gone_from_the_store_too(stage: Stage) -> None:
    items = InMemoryStore()
    process = process_of(stage, store=BaseStoreRecordStore(items))
    await by_hand.check_that_a_thread_is_forgotten(process, stage, "async")
    assert items.search(("compaction_records",)) == []


@both_ways
async def test_a_forgotten_thread_takes_its_subgraphs_along(how: str) -> None:
    items = InMemoryStore()
    keywords = {**by_hand.ABOVE_THE_TRIGGER, "store": BaseStoreRecordStore(items)}
    compact = CompactionNode(context_window=WINDOW, **keywords)
    inner = chat_graph(compact, Model())
    builder = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    graph.invoke(by_hand.TALK, thread())
    assert items.search(("compaction_records",))
    await by_hand.do(how, compact, "forget", graph, thread())
    assert items.search(("compaction_records",)) == []


async def test_without_a_thread_or_a_checkpointer_it_says_so(stage: Stage) -> None:
    await by_hand.check_what_is_refused(process_of(stage))


async def test_the_model_called_last_writes_the_summary(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 2)
    compact, graph = process_of(stage)(InMemorySaver())
    graph.invoke({"messages": spoken(4)}, thread())
    await compact.compact(graph, thread(), keep_recent_tokens=500)
    assert side.requests[-1].is_summary


async def test_an_interrupted_run_goes_on_after_a_compaction_by_hand(stage: Stage) -> None:
    side = stage.side(Answer("Yes."))
    saver = InMemorySaver()
    compact = CompactionNode(context_window=WINDOW)
    asked = compact.wrap(stage.openai())

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [asked.invoke(state["messages"])]}

    graph = chat_graph(compact, model, model_input=MessagesState, checkpointer=saver, interrupt_before=["model"])
    graph.invoke({"messages": spoken(4)}, thread())
    await compact.compact(graph, thread(), **by_hand.CALLED_WITH)
    assert graph.get_state(thread()).next == ("model",)
    assert graph.invoke(None, thread())["messages"][-1].text == "Yes."
    assert langchain_core_stage.SECRET in langchain_core_stage.texts(side.model_requests[-1].messages)
