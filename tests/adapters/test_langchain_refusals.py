from typing import Any

import pytest
from compaction_adapters.langchain_core import LangChainFormat
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from compaction_hooks import CompactionController
from tests.adapters.langchain_core_stage import Stage, thread
from tests.conversations import prose
from tests.provider import Answer, Call

SAID = "Never push to main. Rebase first!"


@tool
def push(branch: str) -> str:
    """Push a branch."""
    raise AssertionError(branch)


async def test_the_words_of_a_rejected_call_are_its_results(stage: Stage) -> None:
    side = stage.side()
    side.answers.extend([Answer(calls=(Call("push", {"branch": "main"}),)), Answer(prose(400))])
    human = HumanInTheLoopMiddleware(interrupt_on={"push": True})
    agent = create_agent(stage.openai(), [push], middleware=[human], checkpointer=InMemorySaver())
    given: Any = {"messages": [("user", "Publish the branch.")]}
    await agent.ainvoke(given, thread("rejected"))
    resume: Any = Command(resume={"decisions": [{"type": "reject", "message": SAID}]})
    messages = (await agent.ainvoke(resume, thread("rejected")))["messages"]
    answer = next(message for message in messages if isinstance(message, ToolMessage))
    if answer.text == SAID:
        pytest.skip("older versions have no sentence before the words")

    hooks = CompactionController(context_window=64_000, format=LangChainFormat())
    record = hooks.compact_sync([*messages, HumanMessage("Well?")], keep_recent_tokens=0).record
    assert record is not None
    assert f"- [ ] push(branch=main) -> FAILED: its result says: {SAID}" in record.summary
    assert SAID not in record.summary.partition("## Progress")[0]
