"""`CompactionMiddleware.compact`, `undo`, `pin`, `load` and `forget`: work by hand on an agent's thread."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain")

from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.records import CHANNEL
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters import by_hand, langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, spoken, thread
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage
both_ways = pytest.mark.parametrize("how", ["sync", "async"])


def process_of(stage: Stage, **keywords: Any) -> by_hand.Process:
    def process(saver: Any) -> tuple[Any, Any]:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        return compaction, create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)

    return process


@both_ways
async def test_what_is_done_by_hand_is_there_in_the_next_process(stage: Stage, how: str) -> None:
    await by_hand.check_that_work_by_hand_survives(process_of(stage), stage, how, CHANNEL)


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


async def test_without_a_thread_or_a_checkpointer_it_says_so(stage: Stage) -> None:
    await by_hand.check_what_is_refused(process_of(stage))


async def test_the_model_called_last_writes_the_summary(stage: Stage) -> None:
    side = stage.side(*[Answer("Yes.")] * 2)
    compaction, agent = process_of(stage)(InMemorySaver())
    agent.invoke({"messages": spoken(4)}, thread())
    await compaction.compact(agent, thread(), keep_recent_tokens=500)
    assert side.requests[-1].is_summary
