"""Graphs whose provider compacts on its own side."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langgraph import CompactionNode
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks.events import CompactionEvent
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, asked, run, thread
from tests.adapters.langgraph_stage import wrapped_graph
from tests.adapters.server_compaction import (
    COMPACTS,
    OPENAI_COMPACTS,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)

BETAS = ["compact-2026-01-12"]


def with_field(stage: Stage) -> Any:
    if "context_management" not in ChatOpenAI.model_fields:
        pytest.skip("this version of langchain-openai has no such field")
    return stage.openai(None, context_management=OPENAI_COMPACTS)


def with_binding(stage: Stage) -> Any:
    return stage.anthropic(None).bind(context_management=COMPACTS, betas=BETAS)


@pytest.mark.parametrize("make", [with_field, with_binding])
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, make: Any) -> None:
    """By the node and by the model that it wraps."""
    side, events = stage.side(), list[CompactionEvent]()
    node = CompactionNode(
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_event=events.append
    )
    graph = wrapped_graph(node, make(stage), checkpointer=InMemorySaver())
    for number in three_requests(side):
        await run(graph, {"messages": asked(0 if number else 12)}, "async" if number else "sync", thread())
    check_left_to_server(side, events, "context_management")


async def test_the_view_of_a_node_is_the_whole_list(stage: Stage) -> None:
    node = CompactionNode(context_window=WINDOW, settings=SETTINGS, model=with_field(stage))
    messages = asked(12)
    assert node.view({"messages": messages}) == messages
