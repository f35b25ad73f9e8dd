"""Strands Agents: sizes, recovery, cancellation, restored sessions, several agents, and the issues that its users have told."""

from typing import Any

import pytest
from compaction_adapters.strands import CompactionConversationManager
from strands.hooks import AfterModelCallEvent
from strands.types.exceptions import EventLoopException

from compaction_hooks import (
    CompactionFinished,
    CompactionSettings,
    ContextOverflowError,
)
from compaction_hooks.events import CompactionEvent
from tests.adapters.strands_stage import WINDOW, Stage, agent_with, chunks_of, read_file, spoken, steps
from tests.conversations import prose
from tests.provider import Answer

SUMMARIZE = CompactionSettings(clear_tool_results=False)
"""Nothing but a summary makes room."""


def texts(messages: list[Any]) -> str:
    return str([one["content"] for one in messages])


def finished(events: list[CompactionEvent]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished)]


# -- sizes


@pytest.mark.parametrize("kind", ["openai", "anthropic", "bedrock", "google"])
async def test_the_whole_input_is_counted_once_also_its_cached_part(stage: Stage, kind: str) -> None:
    side = stage.side(*steps(3), window=100_000)
    own = CompactionConversationManager(context_window=100_000)
    agent = agent_with(getattr(stage, kind)(), own, tools=[read_file], system_prompt=prose(2_000))
    await agent.invoke_async("Read three files.")
    last = side.requests[-1]
    assert last.cached_tokens > 2_000
    assert own.session(agent.session_id).state().context_tokens == last.input_tokens


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("openai", {"params": {"max_completion_tokens": 3_000}}),
        ("anthropic", {"max_tokens": 3_000}),
        ("bedrock", {"max_tokens": 3_000}),
        ("google", {"params": {"max_output_tokens": 3_000}}),
    ],
)
async def test_the_models_window_and_output_limit_are_used(stage: Stage, kind: str, options: dict[str, Any]) -> None:
    side, events = stage.side(*steps(12), window=5_000), list[CompactionEvent]()
    own = CompactionConversationManager(on_event=events.append)
    model = getattr(stage, kind)(context_window_limit=8_000, **options)
    await agent_with(model, own, tools=[read_file]).invoke_async("Read twelve files.")
    assert side.rejections == []
    (window,) = {event.context_window for event in finished(events)}
    assert window == 8_000


# -- recovery


async def test_a_wording_that_strands_does_not_know_is_recovered_from(stage: Stage) -> None:
    side = stage.side(*steps(12), wording="vllm")
    own = CompactionConversationManager(context_window=128_000)
    agent = agent_with(stage.openai(), own, tools=[read_file], messages=spoken(10))
    assert str(await agent.invoke_async("Read twelve files.")).strip() == "All read."
    assert [request.status for request in side.rejections] == [400]


async def test_after_the_first_words_an_overflow_is_raised(stage: Stage) -> None:
    side = stage.side(Answer(prose(300)), Answer("Again."))
    side.stream_fail_after = 3
    agent = agent_with(stage.anthropic(), CompactionConversationManager(context_window=WINDOW), messages=spoken(3))
    shown: list[str] = []
    with pytest.raises(Exception, match="too long"):
        shown += [chunk async for chunk in chunks_of(agent, "Go on.")]
    assert len(side.requests) == 1
    assert str(await agent.invoke_async("Go on.")).strip() == prose(300)


async def test_an_overflow_that_no_view_cures_comes_as_strands_own_error(stage: Stage) -> None:
    side = stage.side(*steps(3))
    agent = agent_with(stage.openai(), CompactionConversationManager(context_window=WINDOW), tools=[read_file])

    def reject(event: AfterModelCallEvent) -> None:
        side.reject_next = 2

    agent.hooks.add_callback(AfterModelCallEvent, reject)
    with pytest.raises(EventLoopException) as caught:
        await agent.invoke_async("Read three files.")
    assert isinstance(caught.value.__cause__, ContextOverflowError)
    assert [list(one["content"][0]) for one in agent.messages] == [["text"], ["toolUse"], ["toolResult"]]
    agent.hooks = type(agent.hooks)()
    side.reject_next = 0
    assert str(await agent.invoke_async("Go on.")).strip() == "All read."
