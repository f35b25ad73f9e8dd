"""Histories that change under a LangGraph thread: time travel, edits, crashes, humans in the loop, several workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")
pytest.importorskip("langgraph.checkpoint.sqlite")

from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes, langchain_core_stage
from tests.adapters.changes_stage import REPAIR, SUMMARISE, SYSTEM, WINDOW, check_never_rejected, marking, summarised
from tests.adapters.graph_changes import LOOK
from tests.adapters.langchain_core_stage import Stage
from tests.adapters.langgraph_stage import ModelInput
from tests.cases import sampled

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage


def a_graph(
    stage: Stage,
    checkpointer: Any,
    *,
    stops: bool = False,
    before_call: Callable[[], object] = lambda: None,
    key: str = "",
    settings: Any = SUMMARISE,
    **options: Any,
) -> Any:
    """A user's own graph: the compaction node, a model node that asks it for the view, tools."""
    model = stage.openai(WINDOW, key=key).bind_tools([LOOK])
    compact = CompactionNode(model=model, settings=settings, system=SYSTEM, **options)
    asked = compact.wrap(model)

    def answer(state: ModelInput) -> dict[str, Any]:
        view = compact.view(state)
        before_call()
        return {"messages": [asked.invoke([SystemMessage(SYSTEM), *view])]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("compact", compact)
    builder.add_node("model", answer)
    builder.add_node("tools", ToolNode([LOOK]))
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "compact")
    return builder.compile(checkpointer=checkpointer, interrupt_before=["tools"] if stops else None)


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(a_graph, stage)


async def test_a_fork_into_another_thread(stage: Stage) -> None:
    graph_changes.check_fork_into_another_thread(a_graph, stage)


@pytest.mark.parametrize("change", sampled(graph_changes.EDITS, 2))
async def test_an_edit(stage: Stage, change: Callable[[list[BaseMessage]], list[BaseMessage]]) -> None:
    graph_changes.check_edit(a_graph, stage, change)


async def test_an_overflow(stage: Stage) -> None:
    graph_changes.check_overflow(a_graph, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    graph_changes.check_crash_in_the_model_call(a_graph, stage, tmp_path / "threads.db")


CHECKOUT = Path(__file__).resolve().parents[2]
DURABILITIES = ("sync", "async", "exit")
KILLED_IN_THE_MODEL_CALL = """
import os, sys
from types import SimpleNamespace
from compaction_hooks import CompactionFinished
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.adapters.changes_stage import marked
from tests.adapters.langchain_core_stage import Stage, thread
from tests.adapters.langgraph_stage import said
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
    """Where a checkpoint comes too late, a store keeps the record."""
    return {} if durability == "sync" else {"store": SQLiteStore(f"{folder}/{durability}-records.db")}


@pytest.mark.full
async def test_a_process_that_is_killed_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    """What it had paid for is found again, in each of LangGraph's durability modes."""
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
            graph = a_graph(stage, saver, key=name, **store_of(tmp_path, name))
            talk = graph_changes.Talk(graph, side)
            before = talk.messages
            if graph.get_state(talk.config).next:
                graph.invoke(None, talk.config)
                talk.demand(before, str(before[-1].text))
            talk.say(2)
        assert len(summarised(side)) == 1
        check_never_rejected(side)


async def test_a_human_in_the_loop(stage: Stage) -> None:
    graph_changes.check_ask_a_human(a_graph, stage)


async def test_a_call_that_is_left_dangling(stage: Stage) -> None:
    graph_changes.check_leave_a_call_dangling(a_graph, stage, settings=REPAIR)


async def test_two_workers(stage: Stage) -> None:
    graph_changes.check_two_workers(a_graph, stage)
