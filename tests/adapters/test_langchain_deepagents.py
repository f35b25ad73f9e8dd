"""`CompactionMiddleware` in place of the summarization that `create_deep_agent` brings along."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("deepagents")

from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.records import CHANNEL
from deepagents import create_deep_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.events import CompactionEvent
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    Stage,
    file_tool,
    kinds_of,
    reads,
    records_in,
    spoken,
    texts,
    thread,
)
from tests.provider import Answer, Call

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

BESIDE = 2 * WINDOW
"""Deep agents send some 6k tokens of tools and prompts of their own."""


def deep_agent(stage: Stage, middleware: CompactionMiddleware, *tools: Any) -> Any:
    return create_deep_agent(stage.openai(BESIDE), tools, middleware=[middleware], checkpointer=InMemorySaver())


def standing_in(**keywords: Any) -> CompactionMiddleware:
    return CompactionMiddleware(name="SummarizationMiddleware", **keywords)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_it_takes_the_place_of_the_built_in_one(stage: Stage, how: str) -> None:
    """One summary, ours: the built-in one would write a file and ask for a summary in its own words."""
    side = stage.side(window=BESIDE)
    events: list[CompactionEvent] = []
    agent = deep_agent(stage, standing_in(on_event=events.append))
    long = {"messages": [*spoken(30), HumanMessage("And now?")]}
    result = agent.invoke(long, thread()) if how == "sync" else await agent.ainvoke(long, thread())
    assert result["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False]
    assert SECRET in texts(side.requests[1].messages)
    values = agent.get_state(thread()).values
    assert len(values["messages"]) == 62
    assert CHANNEL not in values
    assert len(records_in(agent, channel=CHANNEL)) == 1
    assert "_summarization_event" not in values
    assert not values.get("files")


async def test_the_general_purpose_subagent_gets_it_too_with_a_conversation_of_its_own(stage: Stage) -> None:
    task = Call("task", {"description": "Read all files.", "subagent_type": "general-purpose"})
    answers = [reads(f"src/{step}_a.py", f"src/{step}_b.py") for step in range(10)]
    side = stage.side(Answer("", (task,)), *answers, Answer("Inner work is done."), Answer("All done."), window=BESIDE)
    events: list[CompactionEvent] = []
    agent = deep_agent(stage, standing_in(on_event=events.append), file_tool(150))
    result = agent.invoke({"messages": "Delegate."}, thread())
    assert result["messages"][-1].text == "All done."
    assert side.rejections == []
    (id,) = {event.session_id for event in events}
    assert id.startswith("thread|tools:")
    assert records_in(agent, channel=CHANNEL) == []


@pytest.mark.filterwarnings("ignore:The feature `forked subagents`")
async def test_a_fork_goes_on_from_the_summary_of_the_agent_it_was_forked_from(stage: Stage) -> None:
    """It is handed all messages, and none of the private state."""
    task = Call("task", {"description": "Check the vouchers.", "subagent_type": "checker"})
    side = stage.side(Answer("", (task,)), Answer("Checked."), Answer("All done."), window=BESIDE)
    agent: Any = create_deep_agent(
        stage.openai(BESIDE),
        middleware=[standing_in()],
        subagents=[{"name": "checker", "description": "Checks.", "system_prompt": "Check.", "mode": "fork"}],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": [*spoken(30), HumanMessage("And now?")]}, thread())
    assert kinds_of(side.requests) == [True, False, False, False]
    assert all(SECRET in texts(request.messages) for request in side.requests[1:])
