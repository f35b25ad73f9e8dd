"""Google ADK: the checks of every adapter, methods by hand and the recall tool."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.google_adk import CompactionPlugin
from compaction_adapters.kit import Twin
from google.genai import types

from compaction_hooks.formats import GeminiFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.google_adk_stage import AGENT, WINDOW, GivenTool, Hosted, Stage, agent, id_of, text_of
from tests.adapters.recall_scene import REQUEST, check_recall, read_page
from tests.adapters.stage import PATTERNS, recorded_script
from tests.cases import crossed
from tests.data import needs_data
from tests.provider import Answer, LoopbackProvider

MODELS = ["gemini", "anthropic", *(["litellm"] if find_spec("litellm") else [])]


class AgentConversation(Hosted):
    """The runs of an agent in one session."""

    session_id = ""

    async def say_streamed(self, text: str, /) -> Sequence[str]:
        return [text_of(event) async for event in self.events(text, streamed=True) if event.partial and text_of(event)]

    async def history(self) -> list[types.Content]:
        return await self.contents()


class AgentHarness:
    format = GeminiFormat()
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
        conversation.session_id = id_of(session_id=opening.conversation_id)
        try:
            yield conversation
        finally:
            await stage.close()


@crossed(fact=ADAPTER_FACTS, model=MODELS)
def test_the_adapter_has_every_fact(fact: AdapterFact, model: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, model), provider, fact)
