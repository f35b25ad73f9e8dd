"""A model whose window is smaller than believed cuts its answers: a graph with `wrap` goes on to the end."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode

from tests.adapters import langchain_core_stage
from tests.adapters.cut_answers import BELIEVED, MOST, STEPS, WINDOW, cut_off, talkative
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, file_tool
from tests.adapters.langgraph_stage import react_agent

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage


@pytest.mark.parametrize(("client", "told"), [("openai", BELIEVED), ("anthropic", None)])
async def test_a_run_whose_answers_the_window_cuts_reaches_its_end(stage: Stage, client: str, told: int | None) -> None:
    side = stage.side(*talkative(), window=WINDOW, overflow="cut")
    node = CompactionNode(context_window=told, summarizer=CountingSummarizer())
    model: Any = stage.openai(told, max_tokens=MOST) if client == "openai" else stage.anthropic(told)
    agent: Any = react_agent(node.wrap(model), [file_tool(5)], pre_model_hook=node)
    result = await agent.ainvoke({"messages": [("user", "Read all.")]}, {"recursion_limit": 100})
    assert result["messages"][-1].text == "All read."
    assert len(result["messages"]) == 2 + 2 * STEPS
    assert cut_off(side) > 0
