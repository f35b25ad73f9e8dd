"""Pydantic AI: summaries asked in place, at the end of the run's own conversation, and in the background, while the run goes on."""

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction, in_place, summarizer
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.output import NativeOutput, ToolOutput

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.stores import MemoryStore
from tests.adapters.pydantic_ai_stage import Stage, own_event_loop
from tests.background_scene import check_background, check_end_of_loop, check_no_background
from tests.cases import sampled, sampled_rows
from tests.in_place_scene import DONE, REQUEST, SETTINGS, WINDOW, Reader, check_in_place, read_page
from tests.provider import Answer, Call


@pytest.mark.parametrize(
    ("api", "has_answer"),
    sampled_rows([(api, answers) for api in ("openai", "anthropic", "responses") for answers in (True, False)], 1),
)
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
        pytest.param(NativeOutput(Report), Answer(f'{{"text": "{DONE}"}}'), marks=pytest.mark.full),
    ],
    ids=["tool", "native"],
)
async def test_a_run_whose_answer_has_a_form_is_summarized_by_a_transcript(
    stage: Stage, output: Any, end: Answer
) -> None:
    model, side, reader = stage.openai(model="gpt-5.2"), stage.side(window=WINDOW), Reader()
    side.think = lambda received: end if reader.pages == 24 else reader(received)
    compaction = Compaction[None](context_window=WINDOW, settings=SETTINGS, summarizer=in_place(model))
    agent = Agent(model, capabilities=[compaction], tools=[read_page], output_type=output)
    assert (await agent.run(REQUEST)).output == Report(text=DONE)
    assert not side.rejections
    assert {request.is_in_place for request in side.requests if request.is_summary} == {False}


def reading_agent(model: Any, write: Any = None) -> Agent[None, str]:
    """Return an agent whose summaries are written in the background."""
    written = {"summarizer": write(model)} if write else {}
    compaction = Compaction[None](context_window=WINDOW, settings=SETTINGS, background=True, **written)
    return Agent(model, capabilities=[compaction], tools=[read_page], instructions="You read.")


def itself(model: Any) -> Any:
    return model


@pytest.mark.parametrize("write", sampled([itself, summarizer, in_place], 1))
async def test_no_request_waits_for_a_summary_in_the_background(stage: Stage, write: Any) -> None:
    agent, side = reading_agent(stage.openai(), write), stage.side()

    async def ask() -> str:
        result = await agent.run(REQUEST)
        # A summary may outlive the run that began it, and is charged to none.
        assert result.usage.requests == len(side.model_requests)
        return result.output

    await check_background(side, ask)


async def test_the_models_of_requests_write_no_summaries_in_the_background(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    agent, side = reading_agent(stage.openai()), stage.side()

    async def ask() -> str:
        result = await agent.run(REQUEST)
        assert result.usage.requests == len(side.requests)
        return result.output

    await check_no_background(side, ask, caplog)


@pytest.mark.full
def test_an_event_loop_ends_while_a_summary_is_under_way(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    agent = reading_agent(stage.openai(), summarizer)

    async def ask() -> str:
        return (await agent.run(REQUEST)).output

    check_end_of_loop(stage.side(), ask, caplog)


@pytest.mark.parametrize("write", [None, summarizer, itself])
async def test_durable_runs_refuse_the_background(stage: Stage, monkeypatch: pytest.MonkeyPatch, write: Any) -> None:
    """It is begun by the time that calls take, which a replay does not repeat."""
    stage.side()
    monkeypatch.setattr(RunContext, "in_durable_context", True)
    with pytest.raises(ConfigurationError, match="background=True"):
        await reading_agent(stage.openai(), write).run(REQUEST)


def test_a_blocking_run_closes_in_its_own_loop(stage: Stage) -> None:
    """That loop stands still between the runs, and a summary with it."""
    store, side = MemoryStore(), stage.side(window=WINDOW)
    side.think = Reader(last=18)
    compaction = Compaction[None](
        context_window=WINDOW, settings=SETTINGS, summarizer=summarizer(stage.openai()), background=True, store=store
    )
    agent = Agent(stage.openai(), capabilities=[compaction], tools=[read_page])
    with own_event_loop():
        agent.run_sync(REQUEST, conversation_id="talk", usage_limits=UsageLimits(request_limit=None))
        assert not store.load("talk")
        compaction.close_sync()
    assert len(store.load("talk")) == 1
