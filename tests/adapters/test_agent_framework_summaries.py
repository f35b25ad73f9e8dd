"""Microsoft Agent Framework: summaries asked in place, at the end of the agent's own conversation, and in the background."""

from typing import Any

import pytest
from compaction_adapters.agent_framework import CompactionMiddleware, in_place, summarizer
from pydantic import BaseModel

from tests.adapters.agent_framework_stage import APIS, LOCAL, Stage, run_streamed
from tests.background_scene import check_background
from tests.cases import sampled_rows
from tests.in_place_scene import DONE, PAGES, REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import Answer


def agent_of(stage: Stage, api: str, write: Any = in_place, **keywords: Any) -> Any:
    written = write(stage.client(api))
    middleware = CompactionMiddleware(context_window=WINDOW, settings=SETTINGS, summarizer=written, **keywords)
    options = {**({} if api == "anthropic" else LOCAL), "temperature": 0.5, "max_tokens": 1_000}
    return stage.agent(api, middleware, tools=[read_page], instructions="You read.", default_options=options)


@pytest.mark.parametrize(
    ("api", "is_streamed"), sampled_rows([(api, is_streamed) for is_streamed in (True, False) for api in APIS], 1)
)
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, api: str, is_streamed: bool) -> None:
    agent = agent_of(stage, api)

    async def ask() -> str:
        session = agent.create_session()
        if is_streamed:
            return str((await run_streamed(agent, REQUEST, session))[0].messages[-1].text)
        return str((await agent.run(REQUEST, session=session)).messages[-1].text)

    await check_in_place(stage.side(), ask)


class Report(BaseModel):
    text: str


async def test_a_run_whose_answer_has_a_form_is_summarized_by_a_transcript(stage: Stage) -> None:
    agent, side = agent_of(stage, "openai"), stage.side(window=WINDOW)
    session = agent.create_session()
    side.think = lambda _: Answer(f'{{"text": "{DONE}"}}')
    for page in range(0, PAGES, 4):
        response = await agent.run(read_page(page) * 4, session=session, options={"response_format": Report})
        assert response.value == Report(text=DONE)
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}


async def test_no_call_waits_for_a_summary_in_the_background(stage: Stage) -> None:
    agent = agent_of(stage, "openai", summarizer, background=True)

    async def ask() -> str:
        return str((await agent.run(REQUEST, session=agent.create_session())).messages[-1].text)

    await check_background(stage.side(), ask)
