"""Strands Agents: the checks of every adapter, methods by hand, and the recall tool."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from compaction_adapters.strands import CompactionConversationManager, StrandsFormat
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters.stage import PATTERNS, recorded_script
from tests.adapters.strands_stage import Stage, agent_with, chunks_of, tools_for
from tests.cases import crossed
from tests.data import needs_data
from tests.provider import LoopbackProvider


class AgentConversation:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.session_id = agent.session_id

    async def say(self, text: str, /) -> str:
        return str(await self.agent.invoke_async(text))

    def say_sync(self, text: str, /) -> str:
        return str(self.agent(text))

    async def say_streamed(self, text: str, /) -> list[str]:
        return [chunk async for chunk in chunks_of(self.agent, text)]

    async def history(self) -> list[Any]:
        return self.agent.messages


class Harness:
    format = StrandsFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, kind: str) -> None:
        self.name = f"strands-{kind}"
        self.provider = provider
        self.kind = kind

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        controller: Any = opening.controller
        manager = CompactionConversationManager(controller) if controller else NullConversationManager()
        model = getattr(stage, self.kind)(model=opening.model)
        try:
            yield AgentConversation(
                agent_with(model, manager, system_prompt=opening.system, tools=tools_for(opening.tools))
            )
        finally:
            await stage.close()


@crossed(fact=ADAPTER_FACTS, kind=["openai", "anthropic", "bedrock", "responses"])
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(provider, kind), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(Harness(provider, "openai"), provider, recorded_script(pattern))
