"""The LangChain adapter has every fact of the adapter kit, with the clients of OpenAI and of Anthropic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("langchain_openai")

from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage
from tests.adapters.langchain_kit_stage import GraphConversation, tools_of
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.data import needs_data
from tests.provider import LoopbackProvider

provider = langchain_core_stage.provider


class AgentHarness:
    """`create_agent` with an in-memory checkpointer, and one kind of model."""

    format = LangChainFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, kind: str) -> None:
        self.name = f"langchain-{kind}"
        self.provider = provider
        self.kind = kind

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[GraphConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.kind)(None, model=opening.model)
        middleware = [CompactionMiddleware(opening.controller)] if opening.controller else []
        tools = tools_of(opening.tools)
        agent = create_agent(
            model, tools, system_prompt=opening.system, middleware=middleware, checkpointer=InMemorySaver()
        )
        try:
            yield GraphConversation(agent, opening)
        finally:
            await stage.close()


@pytest.mark.parametrize("kind", [pytest.param("openai", marks=pytest.mark.full), "anthropic"])
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, kind), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(AgentHarness(provider, "anthropic"), provider, recorded_script(pattern))
