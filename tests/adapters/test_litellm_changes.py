"""Histories that change under litellm's functions: the caller owns the list, and edits, rewinds, copies and restarts it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import with_compaction

from compaction_hooks import CompactionController, CompactionFinished
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import SQLiteStore
from tests.adapters import litellm_stage
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
from tests.adapters.litellm_stage import QUIET, WITH_TOOLS, Stage, litellm
from tests.cases import sampled
from tests.conversations import Chat, assistant, system, tool, user
from tests.provider import Answer, Rejection, Side

provider = litellm_stage.provider
stage = litellm_stage.stage
pytestmark = QUIET

OUTAGE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look an item up in the ledger.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    },
}


class Talk:
    """A conversation whose list the caller keeps; each talk has a controller of its own, as a process makes one."""

    def __init__(
        self, stage: Stage, side: Side, name: str = "thread", *, function: Any = None, **keywords: Any
    ) -> None:
        self.side = side
        made = {"context_window": WINDOW, "settings": SUMMARISE, **keywords}
        self.call: Any = with_compaction(function or litellm.acompletion, **made)
        self.arguments = {**stage.openai(), "metadata": {"session_id": name}, **WITH_TOOLS}
        self.messages: list[Chat] = [system(SYSTEM)]

    async def say(self, turns: int = 1, tokens: int = 400) -> None:
        for _ in range(turns):
            text = marked(tokens=tokens)
            self.messages.append(user(text))
            while await self.go_on(text):
                pass

    async def go_on(self, text: str, **arguments: Any) -> bool:
        """Make one call, and the tool calls it asks for; return whether there were any."""
        before = copy.deepcopy(self.messages)
        answer = await self.call(messages=self.messages, tools=[LOOK], **{**self.arguments, **arguments})
        assert self.messages == before
        demand(self.side, self.messages, text)
        message = answer.choices[0].message
        self.messages.append(json.loads(message.model_dump_json(exclude_none=True)))
        for call in message.tool_calls or ():
            self.messages.append(tool(call.id, look(**json.loads(call.function.arguments))))
        return bool(message.tool_calls)

    async def say_until_summarised(self) -> None:
        paid = len(summarised(self.side))
        while len(summarised(self.side)) == paid:
            await self.say()


def opened(stage: Stage, *first: Answer, **keywords: Any) -> Talk:
    return Talk(stage, marking(stage.side(window=WINDOW), *first), **keywords)


# -- the caller's hand


async def test_a_rewind_and_back(stage: Stage) -> None:
    """Cut to before the first compaction, to between two, and whole again, under one session id."""
    talk = opened(stage)
    await talk.say(20)
    whole, paid = talk.messages, len(summarised(talk.side))
    assert paid == 2
    for cut in (5, 19, 27, len(whole)):
        talk.messages = whole[:cut]
        await talk.say()
    assert len(summarised(talk.side)) == paid
    talk.messages = whole[:5]
    await talk.say(10)
    assert len(summarised(talk.side)) == paid + 1
    check_never_rejected(talk.side)


EDITS: dict[str, Callable[[list[Chat]], object]] = {
    "a request edited": lambda m: m.__setitem__(1, user(marked("e"))),
    "an answer edited": lambda m: m.__setitem__(4, assistant(marked("e"))),
    "the last answer edited in place": lambda m: m[-1].update(content=marked("e")),  # type: ignore[attr-defined]
    "a turn left out": lambda m: m.__delitem__(slice(3, 5)),
    "the beginning left out": lambda m: m.__delitem__(slice(1, 5)),
    "a turn put in": lambda m: m.__setitem__(slice(3, 3), [user(marked("e")), assistant(marked("e"))]),
    "all made anew": lambda m: m.__setitem__(slice(None), json.loads(json.dumps([*m, user(marked("e"))]))),
}


@pytest.mark.parametrize("change", sampled(EDITS.values(), 3))
async def test_an_edit(stage: Stage, change: Callable[[list[Chat]], object]) -> None:
    """A summary of what is not there any more is not sent."""
    talk = opened(stage)
    await talk.say_until_summarised()
    said = marks(*talk.messages)
    change(talk.messages)
    assert marks(*talk.messages) != said
    await talk.say(3)
    check_never_rejected(talk.side)


async def test_a_restart(stage: Stage, tmp_path: Path) -> None:
    """The list from JSON, the records from a file."""
    talk = opened(stage, store=SQLiteStore(tmp_path / "records.db"))
    await talk.say_until_summarised()
    again = Talk(stage, talk.side, store=SQLiteStore(tmp_path / "records.db"))
    again.messages = json.loads(json.dumps(talk.messages))
    await again.say(2)
    assert len(summarised(talk.side)) == 1


async def test_two_conversations_under_one_id(stage: Stage) -> None:
    """By mistake, through one wrapped function: neither gets the other's summary."""
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW, settings=SUMMARISE)
    function = with_compaction(litellm.acompletion, controller)
    side = marking(stage.side(window=WINDOW))
    one, other = (Talk(stage, side, "same") for _ in range(2))
    one.call = other.call = function
    for _ in range(14):
        await one.say()
        await other.say()
    assert len(summarised(one.side)) >= 2
    check_never_rejected(one.side)


# -- calls that fail


async def test_a_retry_after_a_compaction_pays_once(stage: Stage) -> None:
    def fail_twice(event: CompactionEvent) -> None:
        if isinstance(event, CompactionFinished):
            talk.side.answers.extendleft([OUTAGE, OUTAGE])

    talk = opened(stage, on_event=fail_twice)
    talk.arguments["num_retries"] = 2
    await talk.say_until_summarised()
    assert litellm_stage.statuses(talk.side)[-3:] == [503, 503, 200]
    await talk.say()
    assert len(summarised(talk.side)) == 1


async def test_cancelled_in_the_model_call(stage: Stage) -> None:
    """The summary is there for the next try."""
    begun = asyncio.Event()

    async def slow(messages: list[Chat], **options: Any) -> Any:
        if summarised(talk.side) and not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return await litellm.acompletion(messages=messages, **options)

    talk = opened(stage, function=slow)
    text = ""
    while not begun.is_set():
        text = marked()
        talk.messages.append(user(text))
        run, coming = asyncio.create_task(talk.go_on(text)), asyncio.create_task(begun.wait())
        await asyncio.wait([run, coming], return_when=asyncio.FIRST_COMPLETED)
        coming.cancel()
        if begun.is_set():
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
        else:
            run.result()
    await talk.go_on(text)
    await talk.say()
    assert len(summarised(talk.side)) == 1
    check_never_rejected(talk.side)


async def test_a_router_that_falls_back_pays_once(stage: Stage) -> None:
    side, other = marking(stage.side(window=WINDOW)), marking(stage.side(window=WINDOW, key="-other"))
    router = litellm.Router(
        model_list=[stage.deployment("main"), stage.deployment("other", key="-other")],
        fallbacks=[{"main": ["other"]}],
        num_retries=0,
    )
    talk = Talk(stage, side, function=router.acompletion)
    talk.arguments = {"model": "main", "metadata": {"session_id": "thread"}, **WITH_TOOLS}
    await talk.say_until_summarised()
    side.answers.extendleft([OUTAGE] * 3)
    text = marked()
    talk.messages.append(user(text))
    await talk.call(messages=talk.messages, tools=[LOOK], **talk.arguments)
    demand(other, talk.messages, text)
    side.answers = other.answers
    talk.messages.append(assistant(marked("a")))
    await talk.say()
    assert len(summarised(side)) + len(summarised(other)) == 1


async def test_a_call_without_a_result(stage: Stage) -> None:
    """A crash in a tool left the list broken; with `repair=True` it is sent whole, and compacted."""
    talk = opened(stage, looks(2), looks(2), settings=REPAIR)
    text = marked()
    talk.messages.append(user(text))
    await talk.go_on(text)
    del talk.messages[-1]
    await talk.say_until_summarised()
    await talk.say()
    check_never_rejected(talk.side)
