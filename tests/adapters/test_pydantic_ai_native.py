"""Agents whose provider compacts on its own side."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.anthropic import AnthropicCompaction
from pydantic_ai.models.openai import OpenAICompaction

from compaction_hooks.events import CompactionEvent
from tests.adapters.pydantic_ai_messages import spoken
from tests.adapters.pydantic_ai_stage import Stage
from tests.adapters.server_compaction import (
    CLEARS,
    COMPACTS,
    OPENAI_COMPACTS,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.adapters.stage import CountingSummarizer

OPTIONS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "anthropic_context_management": ("anthropic", {"anthropic_context_management": COMPACTS}, []),
    "anthropic_context_management of AnthropicCompaction": ("anthropic", {}, [AnthropicCompaction()]),
    "openai_context_management": ("responses", {"openai_context_management": OPENAI_COMPACTS}, []),
    "openai_context_management of OpenAICompaction": ("responses", {}, [OpenAICompaction()]),
    "compaction of OpenAICompaction": ("responses", {}, [OpenAICompaction(message_count_threshold=1_000)]),
    "openai_previous_response_id": ("responses", {"openai_previous_response_id": "auto"}, []),
    "openai_conversation_id": ("responses", {"openai_conversation_id": "conv_1"}, []),
    "openai_truncation": ("responses", {"openai_truncation": "auto"}, []),
    "context_management in extra_body": ("openai", {"extra_body": {"context_management": COMPACTS}}, []),
}
"""By the option that is named: the client, the settings of its model, and other capabilities."""


def make_agent(model: Any, events: list[CompactionEvent], *others: Any) -> Agent[None, str]:
    compaction = Compaction[None](
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_compaction=events.append
    )
    return Agent(model, capabilities=[compaction, *others])


@pytest.mark.parametrize("case", OPTIONS)
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, case: str) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    client, settings, others = OPTIONS[case]
    agent = make_agent(getattr(stage, client)(settings=settings), events, *others)
    messages: list[ModelMessage] = spoken(12)
    for _ in three_requests(side):
        messages = (await agent.run("And now?", message_history=messages, conversation_id="thread")).all_messages()
    check_left_to_server(side, events, case.partition(" ")[0])


async def test_a_server_that_only_clears_results_changes_nothing(stage: Stage) -> None:
    side = stage.side(window=200_000)
    agent = make_agent(stage.anthropic(settings={"anthropic_context_management": CLEARS}), [])
    await agent.run("And now?", message_history=spoken(12))
    assert len(side.requests[0].messages) < len(spoken(12))
