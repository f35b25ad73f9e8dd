"""`CompactionMiddleware.compact`, `undo`, `pin`, `load` and `forget` on an agent's thread, sync."""

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.records import CHANNEL
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters import by_hand
from tests.adapters.by_hand_rows import Process, check_rows
from tests.adapters.langchain_core_stage import Stage, both_ways, thread


@pytest.mark.parametrize("check", by_hand.CHECKS, ids=lambda check: check.__name__)
async def test_manual_changes_of_a_thread(stage: Stage, check: Any) -> None:
    def process(saver: Any, **keywords: Any) -> tuple[Any, Any]:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        return compaction, create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)

    await check(process, by_hand.side_of(stage), "sync", CHANNEL)


@both_ways
async def test_rows_of_a_middleware(stage: Stage, tmp_path: Path, how: str) -> None:
    saver = InMemorySaver()

    def new_process(**keywords: Any) -> Process:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        agent: Any = create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)
        run = Twin(agent.invoke, agent.ainvoke, by_hand.LONG_TALK, thread())
        return Process(compaction, run, list, (agent, thread()))

    await check_rows(how, tmp_path, by_hand.side_of(stage), new_process, by_hand.LONG_TALK["messages"][0])
