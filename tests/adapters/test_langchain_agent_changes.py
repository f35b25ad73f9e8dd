"""Histories that change under an agent of LangChain: by its thread, its tools, and other middleware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes
from tests.adapters.changes_stage import (
    REPAIR,
    SUMMARISE,
    SYSTEM,
    WINDOW,
    check_never_rejected,
    demand,
    looks,
    marked,
    marking,
    marks,
    summarised,
)
from tests.adapters.graph_changes import LOOK, opened
from tests.adapters.langchain_core_stage import Stage, said, thread
from tests.provider import Answer


def an_agent(
    stage: Stage,
    checkpointer: Any,
    *,
    settings: Any = SUMMARISE,
    outside: Any = (),
    inside: Any = (),
    tools: Any = (LOOK,),
    **options: Any,
) -> Any:
    return create_agent(
        stage.openai(WINDOW),
        list(tools),
        system_prompt=SYSTEM,
        middleware=[*outside, CompactionMiddleware(settings=settings, **options), *inside],
        checkpointer=checkpointer,
    )


# -- as with any graph


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(an_agent, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    """LangChain drops the update of a call that raises: across processes a store keeps the record."""
    store = SQLiteStore(tmp_path / "records.db")
    graph_changes.check_crash_in_the_model_call(an_agent, stage, tmp_path / "threads.db", store=store)


# -- the agent's own middleware


async def test_the_decisions_of_a_human_on_tool_calls(stage: Stage) -> None:
    """Approved, rejected, edited: the view has the result of each call."""
    decisions = [
        {"type": "approve"},
        {"type": "reject", "message": f"{marked('r', 5)}: no."},
        {"type": "edit", "edited_action": {"name": "look", "args": {"item": "t9999"}}},
    ] * 3
    answers = [answer for _ in decisions for answer in (looks(), Answer(marked("a")))]
    human = HumanInTheLoopMiddleware({"look": True})
    talk = opened(an_agent, stage, *answers, inside=[human])
    for decision in decisions:
        text, before = marked(tokens=500), talk.messages
        stopped = talk.graph.invoke(said(text), talk.config)
        assert stopped["__interrupt__"]
        talk.graph.invoke(Command(resume={"decisions": [decision]}), talk.config)
        talk.demand(before, text)
    assert summarised(talk.side)
    check_never_rejected(talk.side)


async def test_a_tool_that_raises(stage: Stage) -> None:
    """The run ends with a call without an answer; with `repair=True` the user can go on."""

    def look(item: str) -> str:
        """Look an item up in the ledger."""
        raise RuntimeError("the ledger is locked")

    broken = StructuredTool.from_function(look)
    talk = opened(an_agent, stage, Answer(marked("a")), looks(2), tools=[broken], settings=REPAIR)
    talk.say()
    with pytest.raises(RuntimeError, match="locked"):
        talk.graph.invoke(said(marked()), talk.config)
    talk.say_until_summarised()
    talk.say()
    check_never_rejected(talk.side)


class Redacts(AgentMiddleware[Any, Any, Any]):
    """Replaces the first message of every request, once it has a text for it."""

    text = ""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        if not self.text:
            return handler(request)
        first, *rest = request.messages
        return handler(request.override(messages=[first.model_copy(update={"content": self.text}), *rest]))


async def test_middleware_outside_edits_a_summarized_message(stage: Stage) -> None:
    """The edited message counts: the summary of its old text is not sent."""
    redacts = Redacts()
    talk = opened(an_agent, stage, outside=[redacts])
    talk.say_until_summarised()
    redacts.text = marked("e")
    for _ in range(3):
        text = marked()
        talk.graph.invoke(said(text), talk.config)
        _, *rest = talk.messages[:-1]
        demand(talk.side, [redacts.text, *rest], text)
    assert len(summarised(talk.side)) == 2


async def test_middleware_inside_adds_to_the_view(stage: Stage) -> None:
    """A reminder for one call only is never taken into a summary."""

    class Reminds(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            reminder = HumanMessage(marked("m", 5))
            return handler(request.override(messages=[*request.messages, reminder]))

    side = marking(stage.side(window=WINDOW))
    agent = an_agent(stage, InMemorySaver(), inside=[Reminds()])
    while len(summarised(side)) < 2:
        agent.invoke(said(marked()), thread())
        sent, stored = marks(side.requests[-1].messages), marks(*agent.get_state(thread()).values["messages"][:-1])
        assert stored <= sent
        assert [mark[0] for mark in sent - stored] == ["m"]
    assert not any(mark.startswith("m") for summary in summarised(side) for mark in summary)
    check_never_rejected(side)


async def test_middleware_removes_old_messages_from_the_state(stage: Stage) -> None:
    """Messages that a host trims itself are gone from the view too, summary or not."""

    class Trims(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> Any:
            surplus = state["messages"][:-16]
            return {"messages": [RemoveMessage(id=message.id) for message in surplus]} if surplus else None

    side = marking(stage.side(window=WINDOW))
    agent = an_agent(stage, InMemorySaver(), outside=[Trims()])
    for _ in range(14):
        text = marked(tokens=700)
        agent.invoke(said(text), thread())
        demand(side, agent.get_state(thread()).values["messages"][:-1], text)
    assert summarised(side)
