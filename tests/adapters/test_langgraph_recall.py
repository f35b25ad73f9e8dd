from __future__ import annotations

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.tools import tool

from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import WINDOW, Stage, thread
from tests.adapters.langgraph_stage import react_agent
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader
from tests.adapters.recall_scene import read_page as page_text


@tool
def read_page(page: int) -> str:
    """Read a page."""
    return page_text(page)


@pytest.mark.parametrize(
    ("how", "version", "recall", "said"),
    [("sync", "v1", True, KNOWN), ("async", "v2", True, KNOWN), ("sync", "v2", False, UNKNOWN)],
    ids=["tools of the state", "tools by Send", "without the tool"],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, how: str, version: str, recall: bool, said: str
) -> None:
    side = stage.side()
    side.think = reader = Reader()
    compact = CompactionNode(context_window=WINDOW, recall=recall)
    model = compact.wrap(stage.openai())
    agent = react_agent(model, [read_page, *compact.tools], pre_model_hook=compact, version=version)
    given, config = {"messages": [("user", REQUEST)]}, {**thread(), "recursion_limit": 200}
    ended = agent.invoke(given, config) if how == "sync" else await agent.ainvoke(given, config)
    assert ended["messages"][-1].text == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall


def test_recall_excludes_trim() -> None:
    with pytest.raises(ConfigurationError, match="exclude one another"):
        CompactionNode(context_window=WINDOW, recall=True, trim=True)
