"""Pydantic AI: summaries asked in place, at the end of the run's own conversation."""

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction, in_place
from pydantic import BaseModel
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.output import NativeOutput, ToolOutput

from tests.adapters.pydantic_ai_stage import Stage
from tests.in_place_scene import DONE, PAGES, REQUEST, SETTINGS, WINDOW, Reader, check_in_place, read_page
from tests.provider import Answer, Call


@pytest.mark.parametrize("has_answer", [True, False], ids=["summary", "tool call"])
@pytest.mark.parametrize("api", ["openai", "responses", "anthropic"])
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, api: str, has_answer: bool) -> None:
    model, side = getattr(stage, api)(), stage.side()
    compaction = Compaction[None](context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent = Agent(
        model,
        capabilities=[compaction],
        tools=[read_page],
        instructions="You read.",
        model_settings={"temperature": 0.5, "max_tokens": 1_000},
    )

    async def ask() -> str:
        result = await agent.run(REQUEST, usage_limits=UsageLimits(request_limit=None))
        assert result.usage.requests == len(side.requests)
        return result.output

    await check_in_place(side, ask, has_answer=has_answer)


class Report(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("output", "end"),
    [
        (ToolOutput(Report), Answer(calls=(Call("final_result", {"text": DONE}),))),
        (NativeOutput(Report), Answer(f'{{"text": "{DONE}"}}')),
    ],
    ids=["tool", "native"],
)
async def test_a_run_whose_answer_has_a_form_is_summarized_by_a_transcript(
    stage: Stage, output: Any, end: Answer
) -> None:
    model, side, reader = stage.openai(model="gpt-5.2"), stage.side(window=WINDOW), Reader()
    side.think = lambda received: end if reader.pages == PAGES else reader(received)
    compaction = Compaction[None](context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent = Agent(model, capabilities=[compaction], tools=[read_page], output_type=output)
    assert (await agent.run(REQUEST)).output == Report(text=DONE)
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}
