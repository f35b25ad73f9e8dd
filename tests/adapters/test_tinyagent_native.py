"""A summarizer by the provider's own compaction, whose items tinyagent's messages cannot hold."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from compaction_hooks import CompactionFinished
from tests.adapters.tinyagent_stage import SCRIPT, Stage
from tests.provider import LoopbackProvider

openai: Any = pytest.importorskip("openai")


@pytest.fixture
async def client(provider: LoopbackProvider) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=provider.openai_url, api_key="key") as opened:
        yield opened


async def test_an_agent_goes_on_with_a_text(
    provider: LoopbackProvider, request: pytest.FixtureRequest, client: Any
) -> None:
    from compaction_adapters.openai import native

    stage = Stage(provider, request.node.nodeid, context_window=8_192, summarizer=native(client))
    for turn in SCRIPT.turns:
        await stage.hook.prompt(stage.agent, turn.user)
    finished = [event for event in stage.events if isinstance(event, CompactionFinished)]
    assert finished
    assert all("give the adapter native=True" in (event.fallback_reason or "") for event in finished)
    assert [event.record.native for event in finished] == [None] * len(finished)
    assert "[Conversation summary]" in str(stage.side.requests[-1].messages)
    assert {received.status for received in stage.side.requests} == {200}
    stage.demand_whole_history(len(SCRIPT.turns))
