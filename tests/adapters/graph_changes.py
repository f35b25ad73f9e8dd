"""Changes of a thread's history, for graphs and for agents: each of these walks checks the requests of every call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from openai import InternalServerError

from compaction_hooks import CompactionFinished
from compaction_hooks.events import CompactionEvent
from tests.adapters.changes_stage import check_never_rejected, demand, look, marked, marking, summarized
from tests.adapters.langchain_core_stage import OUTAGE, Stage, thread
from tests.provider import Answer, Side

Build: TypeAlias = Callable[..., Any]
"""Returns a graph, with a controller of its own, as a process does when it starts: (stage, checkpointer, **options)."""
LOOK = StructuredTool.from_function(look, name="look")


class Talk:
    def __init__(self, graph: Any, side: Side, name: str = "thread") -> None:
        self.graph = graph
        self.side = side
        self.config = thread(name)

    @property
    def messages(self) -> list[BaseMessage]:
        return list(self.graph.get_state(self.config).values.get("messages", ()))

    def say(self, turns: int = 1, *, start: Any = None) -> None:
        for _ in range(turns):
            text, before = marked(), self.graph.get_state(start or self.config).values.get("messages", [])
            self.graph.invoke({"messages": [HumanMessage(text)]}, start or self.config)
            self.demand(before, text)
            start = None

    def say_until_summarized(self) -> None:
        paid = len(summarized(self.side))
        while len(summarized(self.side)) == paid:
            self.say()

    def demand(self, before: list[BaseMessage], text: str) -> None:
        """Check that the stored messages stayed the same, and that the request holds all of them."""
        after = self.messages
        assert after[: len(before)] == before
        answered = max(index for index, message in enumerate(after) if isinstance(message, AIMessage))
        demand(self.side, after[:answered], text)


def opened(build: Build, stage: Stage, *first: Answer, checkpointer: Any = None, **options: Any) -> Talk:
    side = marking(stage.side(window=8_192), *first)
    return Talk(build(stage, checkpointer or InMemorySaver(), **options), side)


def check_travel_in_time(build: Build, stage: Stage) -> None:
    """Go back before the first compaction and between two, and forward again to the tip that was left."""
    talk = opened(build, stage)
    talk.say(18)
    paid = len(summarized(talk.side))
    assert paid >= 2
    states = reversed(list(talk.graph.get_state_history(talk.config)))
    turns = [state.config for state in states if not state.next and state.values.get("messages")]
    for place in (turns[3], turns[8], turns[13], turns[-1]):
        talk.say(start=place)
    talk.say(3, start=turns[8])
    assert len(summarized(talk.side)) == paid
    talk.say(8, start=turns[3])
    assert len(summarized(talk.side)) == paid + 1
    check_never_rejected(talk.side)


def check_crash_in_the_model_call(build: Build, stage: Stage, path: Path, **keywords: Any) -> None:
    """The call after a second compaction fails; a new process resumes the run from the file, and pays for nothing again.

    The whole list is larger than the window by then.
    """

    def fail(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished) and len(summarized(talk.side)) == 2:
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
    assert len(summarized(talk.side)) == 2
