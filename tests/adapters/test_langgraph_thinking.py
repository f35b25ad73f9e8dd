"""Graphs on models that bind their thinking to what stood before it, behind Anthropic's own integration."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_anthropic")

from compaction_adapters.langgraph import CompactionNode
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionSettings
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, file_tool, reads, thread
from tests.adapters.langgraph_stage import react_agent
from tests.provider import Answer, Signer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

STEPS = 24


async def test_one_refusal_teaches_that_a_model_binds_its_thinking(stage: Stage) -> None:
    side = stage.side(*(reads(f"src/{step}.py", text=f"Step {step}.") for step in range(STEPS)), Answer("Done."))
    signer = side.signer = Signer()
    compact = CompactionNode(settings=CompactionSettings(keep_recent_tokens=3_000))
    graph = react_agent(
        compact.wrap(stage.anthropic(model_name="my-gateway-model")),
        [file_tool(100)],
        pre_model_hook=compact,
        checkpointer=InMemorySaver(),
    )
    said = await graph.ainvoke({"messages": [("user", "Read all files.")]}, {**thread(), "recursion_limit": 4 * STEPS})
    assert said["messages"][-1].text == "Done."
    assert compact.session("thread").state().compaction_count >= 2
    assert len(signer.refusals) == 1
    assert signer.reasoning_share > 0.1
