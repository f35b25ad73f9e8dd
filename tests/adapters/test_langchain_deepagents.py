"""`CompactionMiddleware` in place of the summarization that `create_deep_agent` brings along."""

from typing import Any

import pytest

pytest.importorskip("deepagents")

from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.middleware import CHANNEL
from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware.summarization import SummarizationMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import (
    LONG,
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    asked,
    file_tool,
    kinds_of,
    reads,
    records_in,
    said,
    texts,
    thread,
)
from tests.provider import Answer, Call

LARGE = 2 * WINDOW
"""Deep agents send some 6k tokens of tools and prompts of their own."""


def deep_agent(stage: Stage, events: list[CompactionEvent], *tools: Any) -> Any:
    compaction = CompactionMiddleware(name="SummarizationMiddleware", on_event=events.append)
    return create_deep_agent(stage.openai(LARGE), tools, middleware=[compaction], checkpointer=InMemorySaver())


async def test_it_takes_the_place_of_the_built_in_one(stage: Stage) -> None:
    """One summary, ours: the built-in one would write a file and ask for a summary in its own words."""
    side, agent = stage.side(window=LARGE), deep_agent(stage, [])
    assert (await agent.ainvoke(LONG, thread()))["messages"][-1].text == "Done."
    assert kinds_of(side.requests) == [True, False]
    assert SECRET in texts(side.requests[1].messages)
    values = agent.get_state(thread()).values
    assert len(values["messages"]) == 62
    assert not {CHANNEL, "_summarization_event"} & set(values)
    assert not values.get("files")
    assert len(records_in(agent, channel=CHANNEL)) == 1


async def test_the_general_purpose_subagent_has_it_too_with_a_conversation_of_its_own(stage: Stage) -> None:
    task = Call("task", {"description": "Read all files.", "subagent_type": "general-purpose"})
    answers = [reads(f"src/{step}_a.py", f"src/{step}_b.py") for step in range(10)]
    side = stage.side(Answer("", (task,)), *answers, Answer("Inner work is done."), Answer("All done."), window=LARGE)
    events: list[CompactionEvent] = []
    agent = deep_agent(stage, events, file_tool(150))
    assert agent.invoke(said("Delegate."), thread())["messages"][-1].text == "All done."
    assert side.rejections == []
    (id,) = {event.session_id for event in events}
    assert id.startswith("thread|tools:")
    assert records_in(agent, channel=CHANNEL) == []


async def test_a_thread_goes_to_ours_and_back_and_each_finds_its_own_summary_again(stage: Stage) -> None:
    """Theirs is in a channel of the state that only theirs reads, so ours does not update it.

    The first call of ours is too long: the newest answer in the list has the count of the shorter request that theirs had sent.
    """
    theirs = "They said: never touch the ledger of 1987."
    side, saver, backend = stage.side(*[Answer("Done.")] * 4, window=LARGE), InMemorySaver(), StateBackend()
    stage.side(Answer(theirs), window=8 * WINDOW, key="-theirs")
    own = SummarizationMiddleware(
        stage.openai(key="-theirs"), backend=backend, trigger=("tokens", 16_000), keep=("messages", 4)
    )
    ours = CompactionMiddleware(name="SummarizationMiddleware", summarizer=(summarizer := CountingSummarizer()))
    agents: list[Any] = [
        create_deep_agent(stage.openai(LARGE), backend=backend, middleware=[middleware], checkpointer=saver)
        for middleware in (own, ours)
    ]
    agents[0].invoke({"messages": asked(16)}, thread())
    assert side.rejections == []
    shown = []
    for agent in (agents[1], agents[0], agents[1]):
        messages = agent.invoke(said("Go on."), thread())["messages"]
        shown.append([text for text in (theirs, SECRET) if text in texts(side.requests[-1].messages)])
    assert shown == [[SECRET], [theirs], [SECRET]]
    assert [request.previous_summary for request in summarizer.asked] == [None]
    assert len(messages) == 2 * 16 + 1 + 1 + 3 * 2
    assert [request.status for request in side.requests] == [200, 400, 200, 200, 200]
