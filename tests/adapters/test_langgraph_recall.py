from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import WINDOW, Stage, say, step_by_step, thread
from tests.adapters.langgraph_stage import react_agent
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader
from tests.adapters.recall_scene import read_page as page_text


@tool
def read_page(page: int) -> str:
    """Read a page."""
    return page_text(page)


@pytest.mark.parametrize(
    ("how", "version", "recall", "said"),
    [("sync", "v1", True, KNOWN), ("streamed", "v2", True, KNOWN), ("sync", "v2", False, UNKNOWN)],
    ids=["tools of the state", "streamed, tools by Send", "without the tool"],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, how: str, version: str, recall: bool, said: str
) -> None:
    side = stage.side()
    side.think = reader = Reader()
    compact = CompactionNode(context_window=WINDOW, recall=recall)
    model = compact.wrap(stage.openai())
    agent = react_agent(model, [read_page, *compact.tools], pre_model_hook=compact, version=version)
    assert await say(agent, REQUEST, how, {**thread(), "recursion_limit": 200}) == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall


@pytest.mark.parametrize(("how", "version"), [("sync", "v1"), ("async", "v2")])
async def test_a_thread_that_goes_on_in_another_process_recalls(stage: Stage, how: str, version: str) -> None:
    """The records come from the checkpoint, also if the tool is the first thing that runs there."""
    side, model, saver = stage.side(), stage.openai(), InMemorySaver()
    side.think = reader = Reader()

    def start() -> Any:
        compact = CompactionNode(context_window=WINDOW, recall=True)
        tools = [read_page, *compact.tools]
        saved: Any = {"checkpointer": saver, "interrupt_before": ["tools"], "version": version}
        return react_agent(compact.wrap(model), tools, pre_model_hook=compact, **saved)

    assert await step_by_step(start, REQUEST, how, {**thread(), "recursion_limit": 200}) == KNOWN
    assert reader.recalled


def test_recall_excludes_trim() -> None:
    with pytest.raises(ConfigurationError, match="exclude one another"):
        CompactionNode(context_window=WINDOW, recall=True, trim=True)
