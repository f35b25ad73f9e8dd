"""Histories that change under an agent of LangChain, as under any graph."""

from pathlib import Path
from typing import Any

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent

from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes
from tests.adapters.changes_stage import SUMMARIZE, SYSTEM, WINDOW
from tests.adapters.graph_changes import LOOK
from tests.adapters.langchain_core_stage import Stage


def an_agent(stage: Stage, checkpointer: Any, **options: Any) -> Any:
    compaction: Any = CompactionMiddleware(settings=SUMMARIZE, **options)
    model = stage.openai(WINDOW)
    return create_agent(model, [LOOK], system_prompt=SYSTEM, middleware=[compaction], checkpointer=checkpointer)


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(an_agent, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    """LangChain drops the update of a call that raises: across processes a store keeps the record."""
    store = SQLiteStore(tmp_path / "records.db")
    graph_changes.check_crash_in_the_model_call(an_agent, stage, tmp_path / "threads.db", store=store)
