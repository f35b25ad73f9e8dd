"""The LangChain adapter has every fact of the adapter kit, with the clients of OpenAI and of Anthropic."""

from collections.abc import Sequence
from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters.langchain_kit_stage import GraphHarness
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.data import needs_data
from tests.provider import LoopbackProvider


def agent(model: Any, tools: Sequence[Any], opening: Opening) -> Any:
    middleware = [CompactionMiddleware(opening.controller)] if opening.controller else []
    saver = InMemorySaver()
    return create_agent(model, tools, system_prompt=opening.system, middleware=middleware, checkpointer=saver)


@pytest.mark.parametrize("client", [pytest.param("openai", marks=pytest.mark.full), "anthropic"])
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, client: str, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, client, agent), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(GraphHarness(provider, "anthropic", agent), provider, recorded_script(pattern))
