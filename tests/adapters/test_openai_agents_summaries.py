"""OpenAI Agents SDK: summaries asked in place, at the end of the run's own conversation, and in the background."""

from typing import Any

import pytest
from agents import Agent, ModelSettings, Runner, function_tool
from compaction_adapters.openai_agents import CompactionModelProvider, in_place, summarizer
from pydantic import BaseModel

from tests.adapters.openai_agents_stage import Stage
from tests.background_scene import check_background
from tests.cases import sampled_rows
from tests.in_place_scene import DONE, PAGES, REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import Answer

MOST_TURNS = 99


def agent_with(provider: CompactionModelProvider, model: Any, **options: Any) -> Agent:
    tools: list[Any] = [function_tool(read_page)]
    return Agent("reader", "You read.", model=provider.wrap(model), tools=tools, **options)


@pytest.mark.parametrize(
    ("api", "is_streamed"),
    sampled_rows([("chat", True), ("chat", False), ("responses", True), ("responses", False)], 1),
)
async def test_a_summary_is_asked_by_the_list_of_the_call(stage: Stage, api: str, is_streamed: bool) -> None:
    model = getattr(stage, api)()
    provider = CompactionModelProvider(context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    settings = ModelSettings(temperature=0.5, max_tokens=1_000, store=False, include_usage=True)
    agent = agent_with(provider, model, model_settings=settings)

    async def ask() -> str:
        options: Any = {"run_config": provider.run_config(), "max_turns": MOST_TURNS}
        if not is_streamed:
            return str((await Runner.run(agent, REQUEST, **options)).final_output)
        run = Runner.run_streamed(agent, REQUEST, **options)
        _ = [event async for event in run.stream_events()]
        return str(run.final_output)

    await check_in_place(stage.side(), ask)


class Report(BaseModel):
    text: str


async def test_a_run_whose_answer_has_a_form_is_summarized_by_a_transcript(stage: Stage) -> None:
    model, side, items = stage.responses(), stage.side(window=WINDOW), list[Any]()
    side.think = lambda _: Answer(f'{{"text": "{DONE}"}}')
    provider = CompactionModelProvider(context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent, config = agent_with(provider, model, output_type=Report), provider.run_config("thread")
    for page in range(0, PAGES, 4):
        items.append({"role": "user", "content": read_page(page) * 4})
        run = await Runner.run(agent, items, run_config=config)
        assert run.final_output == Report(text=DONE)
        items = run.to_input_list()
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}


async def test_no_call_waits_for_a_summary_in_the_background(stage: Stage) -> None:
    model, side = stage.chat(), stage.side()
    provider = CompactionModelProvider(
        context_window=WINDOW, settings=SETTINGS, summarizer=summarizer(model), background=True
    )
    agent = agent_with(provider, model)

    async def ask() -> str:
        run = await Runner.run(agent, REQUEST, run_config=provider.run_config(), max_turns=MOST_TURNS)
        assert run.context_wrapper.usage.requests == len(side.model_requests)
        return str(run.final_output)

    await check_background(side, ask)
