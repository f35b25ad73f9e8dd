"""Agents whose provider compacts on its own side."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, asked, run, spoken, thread
from tests.adapters.server_compaction import (
    CLEARS,
    COMPACTS,
    OPENAI_COMPACTS,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.adapters.test_langchain import agent_of

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "context_management": ("anthropic", {"context_management": COMPACTS, "betas": ["compact-2026-01-12"]}),
    "context_management of OpenAI": ("openai", {"context_management": OPENAI_COMPACTS}),
    "use_previous_response_id": ("openai", {"use_previous_response_id": True}),
    "truncation": ("openai", {"truncation": "auto"}),
    "conversation": ("openai", {"extra_body": {"conversation": "conv_1"}, "use_responses_api": True}),
    "conversation in model_kwargs": ("openai", {"model_kwargs": {"conversation": "conv_1"}, "use_responses_api": True}),
}
"""By the option that is named: the client, and the fields of its model."""


def make_agent(model: Any, events: list[CompactionEvent]) -> Any:
    compaction = CompactionMiddleware(
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_event=events.append
    )
    return agent_of(model, compaction, checkpointer=InMemorySaver())


@pytest.mark.parametrize("case", OPTIONS)
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, case: str) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    client, options = OPTIONS[case]
    agent = make_agent(getattr(stage, client)(None, **options), events)
    for number in three_requests(side):
        await run(agent, {"messages": asked(0 if number else 12)}, "async" if number else "sync", thread())
    check_left_to_server(side, events, case.partition(" ")[0])


async def test_a_server_that_only_clears_results_changes_nothing(stage: Stage) -> None:
    side = stage.side(window=200_000)
    make_agent(stage.anthropic(None, context_management=CLEARS, betas=["context-management-2025-06-27"]), []).invoke(
        {"messages": asked(12)}, thread()
    )
    assert len(side.requests[0].messages) < len(spoken(12))
