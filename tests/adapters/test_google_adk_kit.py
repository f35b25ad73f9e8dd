"""Google ADK: the checks of every adapter, methods by hand and the recall tool."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
from compaction_adapters.google_adk import CompactionPlugin
from compaction_adapters.kit import Twin
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.google_search_tool import google_search
from google.genai import types
from pydantic import BaseModel

from compaction_hooks import CompactionEvent, MessageFormat
from compaction_hooks.formats import GeminiFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import by_hand_rows, compact_scene
from tests.adapters.by_hand_rows import Process
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.google_adk_stage import (
    AGENT,
    APP,
    QUIET,
    USER,
    WINDOW,
    GivenTool,
    Hosted,
    Stage,
    agent,
    content,
    id_of,
    text_of,
)
from tests.adapters.recall_scene import KNOWN, NOTICE, REQUEST, UNKNOWN, Reader, check_recall, read_page
from tests.adapters.stage import PATTERNS, recorded_script
from tests.cases import crossed, sampled, sampled_rows
from tests.conversations import prose
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, LoopbackProvider

pytestmark = QUIET
needs_litellm = pytest.mark.skipif(
    not (find_spec("litellm") and find_spec("tokenizers")), reason="needs litellm, not its wheel alone"
)


class AgentConversation(Hosted):
    """The runs of an agent in one session."""

    session_id = ""

    async def say_streamed(self, text: str, /) -> Sequence[str]:
        return [text_of(event) async for event in self.events(text, streamed=True) if event.partial and text_of(event)]

    async def history(self) -> list[types.Content]:
        return await self.contents()


class AgentHarness:
    format = cast("MessageFormat[types.Content]", GeminiFormat())
    has_sync = has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, model: str) -> None:
        self.name = f"google_adk-{model}"
        self.provider = provider
        self.model = model

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.model)(model=opening.model)
        controller: Any = opening.controller
        plugins = [CompactionPlugin(controller)] if controller else []
        root = agent(model, [GivenTool(tool) for tool in opening.tools], instruction=opening.system)
        conversation = AgentConversation(root, *plugins, session_id=opening.conversation_id)
        session = Session(id=opening.conversation_id, app_name=APP, user_id=USER)
        conversation.session_id = CompactionPlugin.conversation_id(session, AGENT)
        try:
            yield conversation
        finally:
            await stage.close()


@crossed(fact=ADAPTER_FACTS, model=["gemini", "anthropic"])
def test_the_adapter_has_every_fact(fact: AdapterFact, model: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, model), provider, fact)


@needs_litellm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fact", sampled(ADAPTER_FACTS, 3), ids=str)
def test_the_adapter_has_every_fact_with_litellm(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, "litellm"), provider, fact)


@by_host_facts(model=["gemini", "anthropic"])
def test_the_host_has_its_say(fact: AdapterFact, model: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, model), provider, fact)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(AgentHarness(provider, "gemini"), provider, recorded_script(pattern))


# -- methods by hand, recall


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_plugin(stage: Stage, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand_rows, "ID", id_of())
    side, service = stage.side(*[Answer(prose(300))] * 8), InMemorySessionService()
    said: list[types.Content] = []

    def new_process(**keywords: Any) -> Process:
        plugin = CompactionPlugin(context_window=WINDOW, **keywords)
        hosted = Hosted(agent(stage.gemini()), plugin, service=service)

        async def run() -> None:
            for number in range(8):
                await hosted.say(f"Question {number}: {prose(300)}")
            said[:] = await hosted.contents()

        return Process(plugin, Twin(lambda: asyncio.run(run()), run), lambda: said, (id_of(),))

    first = content(f"Question 0: {prose(300)}")
    await by_hand_rows.check_rows(how, tmp_path, side, new_process, first)


@pytest.mark.parametrize(
    ("model", "is_streamed", "recall", "argument"),
    sampled_rows(
        [
            ("gemini", False, True, "query"),
            ("anthropic", True, True, "query"),
            ("gemini", True, True, "handle"),
            ("gemini", False, False, "query"),
        ],
        2,
    ),
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, model: str, is_streamed: bool, recall: bool, argument: str
) -> None:
    plugin = CompactionPlugin(context_window=WINDOW, recall=recall, notice=NOTICE)
    llm = stage.gemini() if model == "gemini" else stage.anthropic()
    hosted = Hosted(agent(llm, [read_page]), plugin)
    await check_recall(stage.side(), lambda: hosted.say(REQUEST, streamed=is_streamed), recall, argument)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    plugin = CompactionPlugin(context_window=WINDOW, compact=True, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), [read_leaf]), plugin)
    await check_compact(stage.side(), lambda: hosted.say(compact_scene.REQUEST), events)


async def test_the_next_run_recalls_from_the_run_before(stage: Stage) -> None:
    side = stage.side()
    hosted = Hosted(agent(stage.gemini(), [read_page]), CompactionPlugin(context_window=WINDOW, recall=True))
    side.think = reader = Reader()
    reader.recalled = True  # it does not ask yet
    assert await hosted.say("Read all pages.") == UNKNOWN
    reader.recalled = False
    assert await hosted.say("Which code opens the vault?") == KNOWN


class Verdict(BaseModel):
    text: str


async def test_agents_that_may_call_no_function_are_offered_no_recall(stage: Stage) -> None:
    """Many models refuse functions next to an answer in JSON, or next to Google's own tools."""
    side, plugin = stage.side(), CompactionPlugin(context_window=WINDOW, recall=True)
    for options in ({"output_schema": Verdict}, {"tools": [google_search]}, {}):
        side.answers.append(Answer('{"text": "Yes."}'))
        await Hosted(agent(stage.gemini(model="gemini-2.5-flash"), **options), plugin).say("Is it?")
    assert ["recall" in str(request.tools) for request in side.requests] == [False, False, True]
