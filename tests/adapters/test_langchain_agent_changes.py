"""Histories that change under an agent of LangChain: those of LangGraph's threads, and what other middleware does to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents")
pytest.importorskip("langgraph.checkpoint.sqlite")

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ModelFallbackMiddleware
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from compaction_hooks.stores import SQLiteStore
from tests.adapters import graph_changes, langchain_core_stage
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
from tests.adapters.langchain_core_stage import Stage, thread
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage


def an_agent(
    stage: Stage,
    checkpointer: Any,
    *,
    stops: bool = False,
    settings: Any = SUMMARISE,
    outside: Any = (),
    inside: Any = (),
    tools: Any = (LOOK,),
    response_format: Any = None,
    **options: Any,
) -> Any:
    return create_agent(
        stage.openai(WINDOW),
        list(tools),
        system_prompt=SYSTEM,
        middleware=[*outside, CompactionMiddleware(settings=settings, **options), *inside],
        checkpointer=checkpointer,
        interrupt_before=["tools"] if stops else None,
        response_format=response_format,
    )


# -- as with any graph


async def test_time_travel(stage: Stage) -> None:
    graph_changes.check_travel_in_time(an_agent, stage)


async def test_a_crash_in_the_model_call(stage: Stage, tmp_path: Path) -> None:
    """What a failed call leaves of a compaction is not in its checkpoint: across processes a store keeps it."""
    store = SQLiteStore(tmp_path / "records.db")
    graph_changes.check_crash_in_the_model_call(an_agent, stage, tmp_path / "threads.db", store=store)


async def test_a_call_that_is_left_dangling(stage: Stage) -> None:
    graph_changes.check_leave_a_call_dangling(an_agent, stage, settings=REPAIR)


# -- the agent's own middleware


async def test_a_human_decides_on_calls(stage: Stage) -> None:
    """Approved, rejected, edited: whatever becomes of a call, the view has its result."""
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
        stopped = talk.graph.invoke({"messages": [HumanMessage(text)]}, talk.config)
        assert stopped["__interrupt__"]
        talk.graph.invoke(Command(resume={"decisions": [decision]}), talk.config)
        talk.demand(before, text)
    assert summarised(talk.side)
    check_never_rejected(talk.side)


async def test_a_tool_that_raises(stage: Stage) -> None:
    """The run ends with a call that nobody answered; with `repair=True` the user can go on."""

    def look(item: str) -> str:
        """Look an item up in the ledger."""
        raise RuntimeError("the ledger is locked")

    broken = StructuredTool.from_function(look)
    talk = opened(an_agent, stage, Answer(marked("a")), looks(2), tools=[broken], settings=REPAIR)
    talk.say()
    with pytest.raises(RuntimeError, match="locked"):
        talk.graph.invoke({"messages": [HumanMessage(marked())]}, talk.config)
    talk.say_until_summarised()
    talk.say()
    check_never_rejected(talk.side)


async def test_a_fallback_model_gets_the_view_too(stage: Stage) -> None:
    """One summary serves both models."""
    other = marking(stage.side(window=WINDOW, key="other"))
    fallback = ModelFallbackMiddleware(stage.openai(WINDOW, key="other"))
    talk = opened(an_agent, stage, outside=[fallback])
    talk.say_until_summarised()
    talk.side.answers.appendleft(graph_changes.OUTAGE)
    text, before = marked(), talk.messages
    talk.graph.invoke({"messages": [HumanMessage(text)]}, talk.config)
    demand(other, talk.messages[:-1], text)
    assert talk.messages[: len(before)] == before
    talk.say()
    assert len(summarised(talk.side)) + len(summarised(other)) == 1


class Redacts(AgentMiddleware[Any, Any, Any]):
    """Blackens the first message of every request, once it is told to."""

    text = ""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        if not self.text:
            return handler(request)
        first, *rest = request.messages
        return handler(request.override(messages=[first.model_copy(update={"content": self.text}), *rest]))


async def test_middleware_outside_edits_what_was_summarised(stage: Stage) -> None:
    """The edited message is what counts: the summary of what it said before is not sent."""
    redacts = Redacts()
    talk = opened(an_agent, stage, outside=[redacts])
    talk.say_until_summarised()
    redacts.text = marked("e")
    for _ in range(3):
        text = marked()
        talk.graph.invoke({"messages": [HumanMessage(text)]}, talk.config)
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
        agent.invoke({"messages": [HumanMessage(marked())]}, thread())
        sent, said = marks(side.requests[-1].messages), marks(*agent.get_state(thread()).values["messages"][:-1])
        assert said <= sent
        assert [mark[0] for mark in sent - said] == ["m"]
    assert not any(mark.startswith("m") for summary in summarised(side) for mark in summary)
    check_never_rejected(side)


async def test_middleware_removes_old_messages_from_the_state(stage: Stage) -> None:
    """What a host trims itself is gone from the view too, summary or not."""

    class Trims(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> Any:
            surplus = state["messages"][:-16]
            return {"messages": [RemoveMessage(id=message.id) for message in surplus]} if surplus else None

    side = marking(stage.side(window=WINDOW))
    agent = an_agent(stage, InMemorySaver(), outside=[Trims()])
    for _ in range(14):
        text = marked(tokens=700)
        agent.invoke({"messages": [HumanMessage(text)]}, thread())
        demand(side, agent.get_state(thread()).values["messages"][:-1], text)
    assert summarised(side)
