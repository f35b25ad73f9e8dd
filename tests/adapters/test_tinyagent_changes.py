"""Histories that change under a tinyagent agent: the host replaces, rewinds and edits its messages, aborts, and starts anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("uvicorn")

from compaction_adapters.tinyagent import compaction_hook
from tinyagent import Agent
from tinyagent.agent_types import (
    AgentMessage,
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_hooks.stores import SQLiteStore
from compaction_hooks.testing import Script
from tests.adapters import tinyagent_stage
from tests.adapters.changes_stage import (
    REPAIR,
    SUMMARISE,
    SYSTEM,
    WINDOW,
    check_never_rejected,
    demand,
    look,
    looks,
    marked,
    marking,
    marks,
    summarised,
)
from tests.adapters.tinyagent_stage import made_agent, openai_model
from tests.cases import sampled
from tests.provider import Answer, LoopbackProvider, Side

provider = tinyagent_stage.provider
KINDS: Mapping[str, Any] = {"user": UserMessage, "assistant": AssistantMessage, "tool_result": ToolResultMessage}


async def _execute(call_id: str, arguments: Mapping[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=look(**arguments))])


LOOK = AgentTool(
    name="look",
    description="Look an item up in the ledger.",
    parameters={"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    execute=_execute,
)


class Talk:
    """An agent with a hook and a controller of its own, as a process makes them when it starts."""

    def __init__(self, provider: LoopbackProvider, key: str, side: Side, **hook: Any) -> None:
        self.side = side
        made = {"context_window": WINDOW, "settings": SUMMARISE, **hook}
        self.hook = compaction_hook(**made)
        script = Script(turns=(), system=SYSTEM)
        model = openai_model(provider.openai_url)
        self.agent: Agent = made_agent(self.hook, model, key, script, tools=(), session_id="thread")
        self.agent.set_tools([LOOK])

    @property
    def messages(self) -> list[AgentMessage]:
        return self.agent.state.messages

    async def say(self, turns: int = 1) -> None:
        for _ in range(turns):
            text, before = marked(), dumped(self.messages)
            await self.hook.prompt(self.agent, text)
            assert dumped(self.messages)[: len(before)] == before
            self.demand(text)

    async def say_until_summarised(self) -> None:
        paid = len(summarised(self.side))
        while len(summarised(self.side)) == paid:
            await self.say()

    def demand(self, text: str) -> None:
        assert self.agent.state.error is None
        assert isinstance(self.messages[-1], AssistantMessage)
        demand(self.side, dumped(self.messages[:-1]), text)


def dumped(messages: list[AgentMessage]) -> list[str]:
    return [message.model_dump_json() for message in messages]


def loaded(messages: list[str]) -> list[AgentMessage]:
    return [KINDS[json.loads(one)["role"]].model_validate_json(one) for one in messages]


def users(text: str) -> UserMessage:
    return UserMessage(content=[TextContent(text=text)])


def models(text: str) -> AssistantMessage:
    return AssistantMessage(content=[TextContent(text=text)], stop_reason="stop")


@pytest.fixture
def opened(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Callable[..., Talk]:
    """Opens the test's conversation; opened again, it is another process's."""
    sides: list[Side] = []

    def open_talk(*first: Answer, **hook: Any) -> Talk:
        if not sides:
            sides.append(marking(provider.conversation(request.node.name, window=WINDOW), *first))
        return Talk(provider, request.node.name, sides[0], **hook)

    return open_talk


# -- the host's hand


async def test_a_rewind_and_back(opened: Callable[..., Talk]) -> None:
    """Cut to before the first compaction, to between two, and whole again."""
    talk = opened()
    await talk.say(20)
    whole, paid = talk.messages, len(summarised(talk.side))
    assert paid == 2
    for cut in (4, 18, 26, len(whole)):
        talk.agent.replace_messages(whole[:cut])
        await talk.say()
    assert len(summarised(talk.side)) == paid
    talk.agent.replace_messages(whole[:4])
    await talk.say(10)
    assert len(summarised(talk.side)) == paid + 1
    check_never_rejected(talk.side)


EDITS: dict[str, Callable[[list[AgentMessage]], list[AgentMessage]]] = {
    "a request edited": lambda m: [users(marked("e")), *m[1:]],
    "an answer edited": lambda m: [*m[:3], models(marked("e")), *m[4:]],
    "the last answer edited": lambda m: [*m[:-1], models(marked("e"))],
    "a turn left out": lambda m: [*m[:2], *m[4:]],
    "the beginning left out": lambda m: m[4:],
    "a turn put in": lambda m: [*m[:2], users(marked("e")), models(marked("e")), *m[2:]],
    "all made anew, and one more": lambda m: loaded(dumped([*m, users(marked("e")), models(marked("e"))])),
}


@pytest.mark.parametrize("change", sampled(EDITS.values(), 3))
async def test_an_edit(opened: Callable[..., Talk], change: Callable[[list[AgentMessage]], list[AgentMessage]]) -> None:
    """A summary of what is not there any more is not sent."""
    talk = opened()
    await talk.say_until_summarised()
    said = marks(*talk.messages)
    talk.agent.replace_messages(change(talk.messages))
    assert marks(*talk.messages) != said
    await talk.say(3)
    check_never_rejected(talk.side)


async def test_a_restart(opened: Callable[..., Talk], tmp_path: Path) -> None:
    """Messages from JSON, the records from a file; rewound there, too."""
    talk = opened(looks(2), Answer(marked("a")), store=SQLiteStore(tmp_path / "records.db"))
    await talk.say_until_summarised()
    await talk.say()
    again = opened(store=SQLiteStore(tmp_path / "records.db"))
    again.agent.replace_messages(loaded(dumped(talk.messages)))
    await again.say()
    again.agent.replace_messages(loaded(dumped(talk.messages))[:-2])
    await again.say()
    assert len(summarised(talk.side)) == 1
    check_never_rejected(talk.side)


# -- runs that end in the middle


async def test_a_call_without_a_result(opened: Callable[..., Talk]) -> None:
    """A crash in a tool left the list broken; with `repair=True` it is sent whole, and compacted."""
    talk = opened(looks(2), Answer(marked("a")), settings=REPAIR)
    await talk.say()
    results = [message for message in talk.messages if isinstance(message, ToolResultMessage)]
    talk.agent.replace_messages([message for message in talk.messages if message is not results[0]])
    await talk.say_until_summarised()
    await talk.say()
    check_never_rejected(talk.side)
