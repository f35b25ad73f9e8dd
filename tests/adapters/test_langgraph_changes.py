"""Histories that change under a LangGraph thread: time travel, forks, edits, crashes, several workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, tools_condition

from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes
from tests.adapters.changes_stage import (
    SUMMARISE,
    SYSTEM,
    WINDOW,
    check_never_rejected,
    marked,
    marking,
    summarised,
)
from tests.adapters.graph_changes import LOOK, Talk, opened
from tests.adapters.langchain_core_stage import Stage
from tests.adapters.langgraph_stage import ModelInput


def a_graph(
    stage: Stage,
    checkpointer: Any,
    *,
    before_call: Callable[[], object] = lambda: None,
    key: str = "",
    settings: Any = SUMMARISE,
    **options: Any,
) -> Any:
    """Return a user's own graph: the compaction node, a model node that asks it for the view, tools."""
    model = stage.openai(WINDOW, key=key).bind_tools([LOOK])
    compact = CompactionNode(model=model, settings=settings, system=SYSTEM, **options)
    wrapped = compact.wrap(model)

    def answer(state: ModelInput) -> dict[str, Any]:
        view = compact.view(state)
        before_call()
        return {"messages": [wrapped.invoke([SystemMessage(SYSTEM), *view])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact).add_node("model", answer).add_node("tools", ToolNode([LOOK]))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile(checkpointer=checkpointer)


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(a_graph, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    graph_changes.check_crash_in_the_model_call(a_graph, stage, tmp_path / "threads.db")


def edit_summarized_answer(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [AIMessage(marked("e"), id=messages[3].id)]


def edit_last_request(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(marked("e"), id=messages[-2].id)]


def replace_all(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage(marked("e")), AIMessage(marked("e")), *messages[-4:]]


@pytest.mark.parametrize("change", [edit_summarized_answer, edit_last_request, replace_all])
async def test_an_edit(stage: Stage, change: Callable[[list[BaseMessage]], list[BaseMessage]]) -> None:
    """`update_state` changes summarized or kept messages by their ids; a summary of messages that are gone is not sent."""
    talk = opened(a_graph, stage)
    talk.say_until_summarised()
    before = talk.messages
    talk.graph.update_state(talk.config, {"messages": change(before)})
    assert talk.messages != before
    talk.say(4)
    check_never_rejected(talk.side)


async def test_two_workers(stage: Stage) -> None:
    saver = InMemorySaver()
    one = opened(a_graph, stage, checkpointer=saver)
    other = Talk(a_graph(stage, saver), one.side)
    for _ in range(10):
        one.say()
        other.say()
    alone = opened(a_graph, stage)
    alone.say(20)
    assert len(summarised(one.side)) == len(summarised(alone.side)) >= 2


CHECKOUT = Path(__file__).resolve().parents[2]
DURABILITIES = ("sync", "async", "exit")
KILLED_IN_THE_MODEL_CALL = """
import os, sys
from types import SimpleNamespace
from compaction_hooks import CompactionFinished
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.adapters.changes_stage import marked
from tests.adapters.langchain_core_stage import Stage, said, thread
from tests.adapters.test_langgraph_changes import DURABILITIES, a_graph, store_of

def talk(url, key, folder, durability):
    finished = []
    with SqliteSaver.from_conn_string(f"{folder}/{durability}.db") as saver:
        graph = a_graph(
            Stage(SimpleNamespace(openai_url=url), key + durability),
            saver,
            on_event=lambda event: finished.append(event) if isinstance(event, CompactionFinished) else None,
            before_call=lambda: finished and os._exit(9),
            **store_of(folder, durability),
        )
        while True:
            graph.invoke(said(marked()), thread(), durability=durability)

for durability in DURABILITIES:
    child = os.fork()
    if child == 0:
        talk(*sys.argv[1:], durability)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def store_of(folder: object, durability: str) -> dict[str, Any]:
    """Return a store if a checkpoint comes too late to keep the record."""
    return {} if durability == "sync" else {"store": SQLiteStore(f"{folder}/{durability}-records.db")}


@pytest.mark.full
async def test_a_process_that_is_killed_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    sides = {name: marking(stage.side(window=WINDOW, key=name)) for name in DURABILITIES}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED_IN_THE_MODEL_CALL, stage.provider.openai_url, stage.key, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["9", "9", "9"], done.stderr
    for name, side in sides.items():
        assert len(summarised(side)) == 1
        with SqliteSaver.from_conn_string(str(tmp_path / f"{name}.db")) as saver:
            talk = Talk(a_graph(stage, saver, key=name, **store_of(tmp_path, name)), side)
            before = talk.messages
            if talk.graph.get_state(talk.config).next:
                talk.graph.invoke(None, talk.config)
                talk.demand(before, str(before[-1].text))
            talk.say(2)
        assert len(summarised(side)) == 1
        check_never_rejected(side)
