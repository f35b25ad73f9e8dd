"""Strands Agents: summaries asked in place, at the end of the agent's own conversation, and in the background."""

from typing import Any

import pytest
from compaction_adapters.strands import CompactionConversationManager, in_place, summarizer
from pydantic import BaseModel
from strands import tool

from tests.adapters.strands_stage import Stage, agent_with
from tests.background_scene import check_background
from tests.cases import sampled
from tests.in_place_scene import DONE, PAGES, REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import Answer, Call


@pytest.mark.parametrize("api", sampled(["openai", "responses", "anthropic"], 1))
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, api: str) -> None:
    options: dict[str, Any] = {} if api == "anthropic" else {"params": {"temperature": 0.5}}
    model = getattr(stage, api)(**options)
    manager = CompactionConversationManager(context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent = agent_with(model, manager, tools=[tool(read_page)], system_prompt="You read.")

    async def ask() -> str:
        return str(await agent.invoke_async(REQUEST)).strip()

    await check_in_place(stage.side(), ask)


class Report(BaseModel):
    text: str


async def test_behind_a_forced_answer_the_summary_is_asked_by_a_transcript(stage: Stage) -> None:
    model, side = stage.openai(), stage.side(window=WINDOW)
    forced = Answer(calls=(Call("Report", {"text": DONE}),))
    side.think = lambda received: forced if "tool_choice" in received.body else Answer(DONE)
    manager = CompactionConversationManager(context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent = agent_with(model, manager)
    for page in range(0, PAGES, 4):
        result = await agent.invoke_async(read_page(page) * 4, structured_output_model=Report)
        assert result.structured_output == Report(text=DONE)
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}


async def test_no_call_waits_for_a_summary_in_the_background(stage: Stage) -> None:
    model = stage.openai()
    manager = CompactionConversationManager(
        context_window=WINDOW, settings=SETTINGS, summarizer=summarizer(model), background=True
    )
    agent = agent_with(model, manager, tools=[tool(read_page)])

    async def ask() -> str:
        return str(await agent.invoke_async(REQUEST)).strip()

    await check_background(stage.side(), ask)
