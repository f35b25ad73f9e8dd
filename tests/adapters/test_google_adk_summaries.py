"""Google ADK: summaries asked in place, at the end of the agent's own conversation, and in the background."""

from typing import Any

import pytest
from compaction_adapters.google_adk import CompactionPlugin, in_place, summarizer
from google.genai import types
from pydantic import BaseModel

from tests.adapters.google_adk_stage import QUIET, Hosted, Stage, agent
from tests.background_scene import check_background
from tests.cases import sampled
from tests.in_place_scene import DONE, PAGES, REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import Answer

pytestmark = QUIET


def hosted(model: Any, *tools: Any, write: Any = in_place, background: bool = False, **options: Any) -> Hosted:
    written = write(model)
    plugin = CompactionPlugin(context_window=WINDOW, settings=SETTINGS, summarizer=written, background=background)
    return Hosted(agent(model, tools, **options), plugin)


@pytest.mark.parametrize("is_streamed", sampled([True, False], 1), ids=["streamed", "whole"])
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, is_streamed: bool) -> None:
    config = types.GenerateContentConfig(temperature=0.5)
    host = hosted(stage.gemini(), read_page, instruction="You read.", generate_content_config=config)

    async def ask() -> str:
        return await host.say(REQUEST, streamed=is_streamed)

    await check_in_place(stage.side(), ask)


class Report(BaseModel):
    text: str


async def test_a_run_whose_answer_has_a_form_is_summarized_by_a_transcript(stage: Stage) -> None:
    side, end = stage.side(window=WINDOW), Answer(f'{{"text": "{DONE}"}}')
    side.think = lambda _: end
    host = hosted(stage.gemini(), output_schema=Report)
    for page in range(0, PAGES, 4):
        assert await host.say(read_page(page) * 4) == end.text
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}


async def test_no_call_waits_for_a_summary_in_the_background(stage: Stage) -> None:
    host = hosted(stage.gemini(), read_page, write=summarizer, background=True)
    await check_background(stage.side(), lambda: host.say(REQUEST))
