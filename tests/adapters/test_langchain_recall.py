from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_core_stage import WINDOW, Stage, thread
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader
from tests.adapters.recall_scene import read_page as page_text


@tool
def read_page(page: int) -> str:
    """Read a page."""
    return page_text(page)


@pytest.mark.parametrize(
    ("api", "how", "saver", "recall", "said"),
    [
        ("openai", "sync", None, True, KNOWN),
        ("openai", "sync", InMemorySaver(), True, KNOWN),
        ("anthropic", "async", InMemorySaver(), True, KNOWN),
        ("openai", "async", InMemorySaver(), False, UNKNOWN),
    ],
    ids=["run without a thread", "thread", "async", "without the tool"],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, how: str, saver: InMemorySaver | None, recall: bool, said: str
) -> None:
    side = stage.side()
    side.think = reader = Reader()
    middleware = CompactionMiddleware(context_window=WINDOW, recall=recall)
    agent = create_agent(getattr(stage, api)(), [read_page], middleware=[middleware], checkpointer=saver)
    config = thread(f"{api} {how} {recall}") if saver else None
    given: Any = {"messages": [("user", REQUEST)]}
    ended = agent.invoke(given, config) if how == "sync" else await agent.ainvoke(given, config)
    assert ended["messages"][-1].text == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall
