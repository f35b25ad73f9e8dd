from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_core_stage import WINDOW, Stage, both_ways, say, step_by_step, thread
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader
from tests.adapters.recall_scene import read_page as page_text


@tool
def read_page(page: int) -> str:
    """Read a page."""
    return page_text(page)


@pytest.mark.parametrize(
    ("api", "how", "saver", "recall", "argument", "said"),
    [
        ("openai", "sync", None, True, "query", KNOWN),
        ("openai", "streamed", InMemorySaver(), True, "handle", KNOWN),
        ("anthropic", "async", InMemorySaver(), True, "query", KNOWN),
        ("openai", "async", InMemorySaver(), False, "query", UNKNOWN),
    ],
    ids=["run without a thread", "streamed, misnamed argument", "async", "without the tool"],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, how: str, saver: InMemorySaver | None, recall: bool, argument: str, said: str
) -> None:
    side = stage.side()
    side.think = reader = Reader(argument)
    middleware = CompactionMiddleware(context_window=WINDOW, recall=recall)
    agent = create_agent(getattr(stage, api)(), [read_page], middleware=[middleware], checkpointer=saver)
    assert await say(agent, REQUEST, how, thread() if saver else None) == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall


@both_ways
async def test_a_thread_that_goes_on_in_another_process_recalls(stage: Stage, how: str) -> None:
    """The records come from the checkpoint, also if the tool is the first thing that runs there."""
    side, model, saver = stage.side(), stage.openai(), InMemorySaver()
    side.think = reader = Reader()

    def start() -> Any:
        middleware = [CompactionMiddleware(context_window=WINDOW, recall=True)]
        return create_agent(model, [read_page], middleware=middleware, checkpointer=saver, interrupt_before=["tools"])

    assert await step_by_step(start, REQUEST, how, {**thread(), "recursion_limit": 200}) == KNOWN
    assert reader.recalled
