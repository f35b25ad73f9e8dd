"""A model whose window is smaller than believed cuts its answers: an agent of LangChain goes on to the end."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent

from tests.adapters.cut_answers import BELIEVED, MOST, STEPS, WINDOW, cut_off, talkative
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, file_tool, said


@pytest.mark.parametrize(("client", "told"), [("openai", BELIEVED), ("anthropic", None)])
async def test_a_run_whose_answers_the_window_cuts_reaches_its_end(stage: Stage, client: str, told: int | None) -> None:
    side = stage.side(*talkative(), window=WINDOW, overflow="cut")
    model: Any = stage.openai(told, max_tokens=MOST) if client == "openai" else stage.anthropic(told)
    agent: Any = create_agent(model, [file_tool(5)], middleware=[CompactionMiddleware(summarizer=CountingSummarizer())])
    result = await agent.ainvoke(said("Read all."), {"recursion_limit": 100})
    assert result["messages"][-1].text == "All read."
    assert len(result["messages"]) == 2 + 2 * STEPS
    assert cut_off(side) > 0
