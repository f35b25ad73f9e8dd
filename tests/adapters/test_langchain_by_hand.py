"""`CompactionMiddleware.compact`, `undo`, `pin`, `load` and `forget` on an agent's thread, sync."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.records import CHANNEL
from langchain.agents import create_agent

from tests.adapters import by_hand
from tests.adapters.langchain_core_stage import Stage


@pytest.mark.parametrize("check", by_hand.CHECKS, ids=lambda check: check.__name__)
async def test_manual_changes_of_a_thread(stage: Stage, check: Any) -> None:
    def process(saver: Any, **keywords: Any) -> tuple[Any, Any]:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        return compaction, create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)

    await check(process, by_hand.side_of(stage), "sync", CHANNEL)
