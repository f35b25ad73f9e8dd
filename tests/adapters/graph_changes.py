"""Changes of a thread's history, for graphs and for agents: each of these walks demands what must hold on every call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from openai import InternalServerError

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from tests.adapters.changes_stage import (
    check_never_rejected,
    demand,
    look,
    looks,
    marked,
    marking,
    summarised,
)
from tests.adapters.langchain_core_stage import Stage, thread
from tests.provider import Answer, Rejection, Side

Build: TypeAlias = Callable[..., Any]
"""Makes a graph, with a controller of its own, as a process does when it starts: (stage, checkpointer, **options)."""
LOOK = StructuredTool.from_function(look, name="look")
OUTAGE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})


class Talk:
    """A thread of a graph."""

    def __init__(self, graph: Any, side: Side, name: str = "thread") -> None:
        self.graph = graph
        self.side = side
        self.config = thread(name)

    @property
    def messages(self) -> list[BaseMessage]:
        return list(self.graph.get_state(self.config).values.get("messages", ()))

    def say(self, turns: int = 1, *, start: Any = None) -> None:
        """Say something, at the tip of the thread or from an earlier checkpoint."""
        for _ in range(turns):
            text, before = marked(), self.graph.get_state(start or self.config).values.get("messages", [])
            self.graph.invoke({"messages": [HumanMessage(text)]}, start or self.config)
            self.demand(before, text)
            start = None

    def say_until_summarised(self) -> None:
        paid = len(summarised(self.side))
        while len(summarised(self.side)) == paid:
            self.say()

    def demand(self, before: list[BaseMessage], text: str) -> None:
        """What was stored stays as it was, and what was sent is what is stored."""
        after = self.messages
        assert after[: len(before)] == before
        answered = max(index for index, message in enumerate(after) if isinstance(message, AIMessage))
        demand(self.side, after[:answered], text)

    def checkpoints(self) -> list[Any]:
        """Where a turn ended, the oldest first."""
        states = list(self.graph.get_state_history(self.config))
        return [state.config for state in reversed(states) if not state.next and state.values.get("messages")]


def opened(build: Build, stage: Stage, *first: Answer, checkpointer: Any = None, **options: Any) -> Talk:
    side = marking(stage.side(window=8_192), *first)
    return Talk(build(stage, checkpointer or InMemorySaver(), **options), side)


# -- the walks


def check_travel_in_time(build: Build, stage: Stage) -> None:
    """Back before the first compaction, between two, and forward again to what was left."""
    talk = opened(build, stage)
    talk.say(20)
    assert len(summarised(talk.side)) >= 2
    turns = talk.checkpoints()
    tip, paid = turns[-1], len(summarised(talk.side))
    for place in (turns[3], turns[8], turns[13], tip):
        talk.say(start=place)
    talk.say(3, start=turns[8])
    assert len(summarised(talk.side)) == paid
    talk.say(8, start=turns[3])
    assert len(summarised(talk.side)) == paid + 1
    check_never_rejected(talk.side)


def check_fork_into_another_thread(build: Build, stage: Stage) -> None:
    """Another thread begins as a copy of this one's past; both go on."""
    talk = opened(build, stage)
    talk.say_until_summarised()
    talk.say()
    copied = talk.graph.get_state(talk.checkpoints()[-2]).values
    fork = Talk(talk.graph, talk.side, "fork")
    fork.graph.update_state(fork.config, copied)
    for each in (fork, talk, fork, talk):
        each.say()
    assert len(summarised(talk.side)) == 1


def remove_first(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=str(message.id)) for message in messages[:2]]


def remove_last(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [RemoveMessage(id=str(message.id)) for message in messages[-2:]]


def edit_first(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(marked("e"), id=messages[0].id)]


def edit_covered_answer(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [AIMessage(marked("e"), id=messages[3].id)]


def edit_last_request(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(marked("e"), id=messages[-2].id)]


def replace_all(messages: list[BaseMessage]) -> list[BaseMessage]:
    fresh = [HumanMessage(marked("e")), AIMessage(marked("e"))]
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fresh, *messages[-4:]]


EDITS = (remove_first, remove_last, edit_first, edit_covered_answer, edit_last_request, replace_all)


def check_edit(build: Build, stage: Stage, change: Callable[[list[BaseMessage]], list[BaseMessage]]) -> None:
    """`update_state` changes covered or kept messages by their ids; a summary of what is gone is not sent."""
    talk = opened(build, stage)
    talk.say_until_summarised()
    before = talk.messages
    talk.graph.update_state(talk.config, {"messages": change(before)})
    assert talk.messages != before
    talk.say(4)
    check_never_rejected(talk.side)


def check_overflow(build: Build, stage: Stage) -> None:
    """The provider rejects a call for its size; afterwards nothing is lost, and one summary was paid for."""
    talk = opened(build, stage, looks(2), Answer(marked("a")))
    talk.say(5)
    talk.side.reject_next = 1
    talk.say(4)
    assert [request.status for request in talk.side.rejections] == [400]
    assert len(summarised(talk.side)) == 1


def check_crash_in_the_model_call(build: Build, stage: Stage, path: Path, **keywords: Any) -> None:
    """The call after a second compaction fails; a new process goes on with the run from the file, and pays for nothing again.

    The whole list is larger than the window by then.
    """

    def fail(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished) and len(summarised(talk.side)) == 2:
            talk.side.answers.appendleft(OUTAGE)

    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk = opened(build, stage, checkpointer=saver, on_event=fail, **keywords)
        with pytest.raises(InternalServerError):
            talk.say(30)
        before = talk.messages
    with SqliteSaver.from_conn_string(str(path)) as saver:
        resumed = Talk(build(stage, saver, **keywords), talk.side)
        assert resumed.messages == before
        resumed.graph.invoke(None, resumed.config)
        resumed.demand(before, str(before[-1].text))
        resumed.say(3)
    assert len(summarised(talk.side)) == 2


def check_ask_a_human(build: Build, stage: Stage) -> None:
    """A tool call waits for a human through a compaction: approved, then rejected with a result in its place."""
    answers = [answer for _ in range(8) for answer in (looks(2), Answer(marked("a")))]
    talk = opened(build, stage, *answers, stops=True)
    for turn in range(8):
        text = marked(tokens=500)
        talk.graph.invoke({"messages": [HumanMessage(text)]}, talk.config)
        before = talk.messages
        last = before[-1]
        assert isinstance(last, AIMessage)
        assert set(talk.graph.get_state(talk.config).next) == {"tools"}
        if turn % 2:
            told = [ToolMessage(marked("r", 5), tool_call_id=str(call["id"])) for call in last.tool_calls]
            talk.graph.update_state(talk.config, {"messages": told}, as_node="tools")
        talk.graph.invoke(None, talk.config)
        talk.demand(before, text)
    assert summarised(talk.side)
    check_never_rejected(talk.side)


def check_leave_a_call_dangling(build: Build, stage: Stage, **options: Any) -> None:
    """The human says something else instead: with `repair=True` the call that was never answered is no error of the provider."""
    talk = opened(build, stage, looks(), stops=True, **options)
    text = marked()
    talk.graph.invoke({"messages": [HumanMessage(text)]}, talk.config)
    talk.say_until_summarised()
    talk.say()
    check_never_rejected(talk.side)


def check_two_workers(build: Build, stage: Stage, **keywords: Any) -> None:
    """Two processes take turns on one thread, by one checkpointer: each uses the other's summary."""
    saver = InMemorySaver()
    one = opened(build, stage, checkpointer=saver, **keywords)
    other = Talk(build(stage, saver, **keywords), one.side)
    for _ in range(10):
        one.say()
        other.say()
    alone = opened(build, stage)
    alone.say(20)
    assert len(summarised(one.side)) == len(summarised(alone.side)) >= 2
