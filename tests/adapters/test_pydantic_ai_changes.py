"""Histories that change under an agent of pydantic-ai: its user keeps the messages, and cuts, edits, stores and resumes them."""

from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent, Tool, capture_run_messages
from pydantic_ai import messages as ai
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from compaction_hooks.stores import SQLiteStore
from tests.adapters.changes_stage import (
    REPAIR,
    SUMMARIZE,
    SYSTEM,
    WINDOW,
    check_never_rejected,
    demand,
    look,
    looks,
    marked,
    marking,
    marks,
    summarized,
)
from tests.adapters.pydantic_ai_messages import stored
from tests.adapters.pydantic_ai_stage import Stage
from tests.cases import crossed
from tests.provider import Answer, Side


def agent_of(
    model: Any, *, settings: Any = SUMMARIZE, tool: Any = look, output_type: Any = str, **options: Any
) -> Agent[None, Any]:
    """An agent with a controller of its own, as a process makes one when it starts."""
    compaction = Compaction[None](context_window=WINDOW, settings=settings, **options)
    return Agent(model, instructions=SYSTEM, capabilities=[compaction], tools=[tool], output_type=output_type)


def dumped(messages: list[ModelMessage]) -> list[Any]:
    """The parts that were said: the framework joins requests, and makes results for calls that nobody answered."""
    stored = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    parts: list[Any] = [part for message in stored for part in message["parts"]]
    return [part for part in parts if part.get("outcome") != "interrupted"]


class Talk:
    def __init__(self, side: Side, agent: Agent[None, Any]) -> None:
        self.side = side
        self.agent = agent
        self.history: list[ModelMessage] = []

    async def say(self, turns: int = 1) -> None:
        for _ in range(turns):
            text, before = marked(), dumped(self.history)
            result = await self.agent.run(text, message_history=self.history)
            assert dumped(self.history) == before
            self.take(result.all_messages(), text)

    async def say_until_summarized(self) -> None:
        paid = len(summarized(self.side))
        while len(summarized(self.side)) == paid:
            await self.say()

    def take(self, messages: list[ModelMessage], text: str) -> None:
        """What was said stays as it was, and what was sent is what was said."""
        before = dumped(self.history)
        assert dumped(messages)[: len(before)] == before
        demand(self.side, messages[:-1], text)
        self.history = messages


def opened(stage: Stage, *first: Answer, **options: Any) -> Talk:
    return Talk(marking(stage.side(window=WINDOW), *first), agent_of(stage.openai(), **options))


# -- the user's hand


async def test_a_rewind_and_back_here_and_in_another_process(stage: Stage, tmp_path: Path) -> None:
    talk = opened(stage, store=SQLiteStore(tmp_path / "records.db"))
    await talk.say(18)
    whole, paid = talk.history, len(summarized(talk.side))
    assert paid == 2
    other = Talk(talk.side, agent_of(stage.openai(), store=SQLiteStore(tmp_path / "records.db")))
    for speaker, messages in ((talk, whole), (other, stored(whole))):
        for cut in (4, 18, 26, len(messages)):
            speaker.history = messages[:cut]
            await speaker.say()
    assert len(summarized(talk.side)) == paid
    talk.history = whole[:4]
    await talk.say(10)
    assert len(summarized(talk.side)) == paid + 1
    check_never_rejected(talk.side)


@pytest.mark.parametrize("edit", ["of an answer, in place", pytest.param("without a turn", marks=pytest.mark.full)])
async def test_a_summary_of_edited_messages_is_not_sent(stage: Stage, edit: str) -> None:
    talk = opened(stage)
    await talk.say_until_summarized()
    before = marks(*talk.history)
    if edit == "without a turn":
        talk.history = [*talk.history[:2], *talk.history[4:]]
    else:
        talk.history[-1].parts = [ai.TextPart(marked("e"))]
    assert marks(*talk.history) != before
    await talk.say(3)
    check_never_rejected(talk.side)


# -- calls without a result


@crossed(goes_on=["without a prompt", "after another request"], settings=[SUMMARIZE, REPAIR])
async def test_a_run_whose_tool_raises_is_continued(goes_on: str, settings: Any, stage: Stage) -> None:
    """The captured messages end in calls without a result. However the user goes on, nothing is lost or refused."""
    is_locked = True

    def look_up(item: str) -> str:
        if is_locked:
            raise RuntimeError("the ledger is locked")
        return look(item)

    talk = opened(stage, Answer(marked("a")), looks(2), settings=settings, tool=Tool(look_up, name="look"))
    await talk.say()
    text = marked()
    with capture_run_messages() as captured, pytest.raises(RuntimeError, match="locked"):
        await talk.agent.run(text, message_history=talk.history)
    assert [isinstance(part, ai.ToolCallPart) for message in captured for part in message.parts].count(True) == 2
    is_locked = False
    if goes_on == "without a prompt":
        talk.history = captured
        talk.take((await talk.agent.run(message_history=captured)).all_messages(), text)
    else:
        talk.history = [*captured, ModelRequest(parts=[UserPromptPart(marked())])]
    await talk.say_until_summarized()
    await talk.say()
    check_never_rejected(talk.side)
