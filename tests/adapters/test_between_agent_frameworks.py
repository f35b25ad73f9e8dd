"""A conversation that was compacted in one framework goes on in each other with the same record, and no second summary."""

# ruff: noqa: E402 - what may be missing is looked for first

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import pytest

for package in ("agents", "google.adk", "strands", "agent_framework_openai", "anthropic"):
    pytest.importorskip(package)

from agents import Agent as SDKAgent
from agents import Runner
from compaction_adapters.agent_framework import AgentFrameworkFormat, CompactionMiddleware
from compaction_adapters.google_adk import CompactionPlugin
from compaction_adapters.openai_agents import CompactionModelProvider
from compaction_adapters.strands import CompactionConversationManager
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService

from compaction_hooks import CompactionController
from tests.adapters import agent_framework_stage, google_adk_stage, openai_agents_stage, strands_stage
from tests.adapters.stage import SECRET, WINDOW, CountingSummarizer
from tests.adapters.test_agent_framework_messages import said
from tests.adapters.test_google_adk import as_contents
from tests.adapters.test_openai_agents import items_of
from tests.adapters.test_strands_kit import as_strands
from tests.conversations import PLAIN, steps, talk, user
from tests.provider import Answer, LoopbackProvider

pytestmark = google_adk_stage.QUIET

HISTORY = [*talk(8, 500), user("Read the files."), *steps(8), *talk(8, 500, first=20)]
"""More than the window; the last answer has been given."""


async def openai_agents(
    provider: LoopbackProvider, key: str, hooks: Any, history: Sequence[Mapping[str, Any]], records: Any
) -> list[Any]:
    stage = openai_agents_stage.Stage(provider, key)
    models = CompactionModelProvider(hooks)
    models.session("thread").import_records(records)
    agent = SDKAgent("reader", model=models.wrap(stage.responses()))
    await Runner.run(agent, [*items_of(history), *items_of([user("Go on.")])], run_config=models.run_config("thread"))
    await stage.close()
    return models.session("thread").export_records()


async def google_adk(
    provider: LoopbackProvider, key: str, hooks: Any, history: Sequence[Mapping[str, Any]], records: Any
) -> list[Any]:
    stage, service = google_adk_stage.Stage(provider, key), InMemorySessionService()
    plugin, place = CompactionPlugin(hooks), google_adk_stage.id_of()
    plugin.session(place).import_records(records)
    hosted = google_adk_stage.Hosted(google_adk_stage.agent(stage.anthropic()), plugin, service=service)
    session = await service.create_session(app_name=google_adk_stage.APP, **hosted.place)
    for content in as_contents(history):
        author = google_adk_stage.AGENT if content.role == "model" else "user"
        await service.append_event(session, Event(author=author, content=content))
    await hosted.say("Go on.")
    await stage.close()
    return plugin.session(place).export_records()


async def strands(
    provider: LoopbackProvider, key: str, hooks: Any, history: Sequence[Mapping[str, Any]], records: Any
) -> list[Any]:
    stage, manager = strands_stage.Stage(provider, key), CompactionConversationManager(hooks)
    agent = strands_stage.agent_with(stage.openai(), manager, messages=as_strands(history))
    manager.session(agent.session_id).import_records(records)
    await agent.invoke_async("Go on.")
    await stage.close()
    return manager.session(agent.session_id).export_records()


async def agent_framework(
    provider: LoopbackProvider, key: str, hooks: Any, history: Sequence[Mapping[str, Any]], records: Any
) -> list[Any]:
    stage, middleware = agent_framework_stage.Stage(provider, key), CompactionMiddleware(hooks)
    middleware.session("thread").import_records(records)
    agent = stage.agent("openai", middleware)
    session = agent.create_session(session_id="thread")
    session.state["in_memory"] = {"messages": [said(message) for message in history]}
    await agent.run("Go on.", session=session)
    await stage.close()
    return middleware.session("thread").export_records()


GoOn = Callable[[LoopbackProvider, str, Any, Sequence[Mapping[str, Any]], Any], Awaitable[list[Any]]]
FRAMEWORKS: list[GoOn] = [openai_agents, google_adk, strands, agent_framework]
RING = [*pairwise([*FRAMEWORKS, FRAMEWORKS[0]])]
"""Each framework, and the one that goes on with its conversation in the fast suite."""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, id="-".join(each.__name__ for each in pair), marks=() if pair in RING else pytest.mark.full)
        for pair in permutations(FRAMEWORKS, 2)
    ],
)
async def test_a_conversation_goes_on_with_the_same_record(
    first: GoOn, second: GoOn, provider: LoopbackProvider
) -> None:
    paid, free = CountingSummarizer(), CountingSummarizer()
    sides = [provider.conversation(key, window=WINDOW, answers=[Answer("Yes.")]) for key in ("first", "second")]
    hooks = [
        CompactionController[Any](
            context_window=WINDOW, settings=PLAIN, summarizer=asked, format=AgentFrameworkFormat()
        )
        for asked in (paid, free)
    ]
    records = await first(provider, "first", hooks[0], HISTORY, [])
    again = await second(provider, "second", hooks[1], HISTORY, records)
    assert (len(paid.asked), len(free.asked)) == (1, 0)
    assert [record["id"] for record in again] == [record["id"] for record in records]
    for side in sides:
        assert SECRET in str(side.model_requests[0].messages)
        assert side.rejections == []
