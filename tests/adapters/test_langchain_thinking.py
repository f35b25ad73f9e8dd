"""Agents on models that bind their thinking to the messages before it, behind Anthropic's own integration."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionController, CompactionSettings, project
from tests.adapters.langchain_core_stage import Stage, file_tool, reads, said, streamed, thread
from tests.provider import Answer, Signer

BINDING = "claude-sonnet-5-5"
STEPS = 24
SEALED = {"signature": "sealed"}
TEXT = {"type": "text", "text": "Step."}
REDACTED = {"type": "redacted_thinking", "data": "sealed"}
SHAPES: dict[str, dict[str, Any]] = {
    "langchain-anthropic": {"content": [{"type": "thinking", "thinking": "", **SEALED}, REDACTED, TEXT]},
    "langchain-core": {
        "content": [
            {"type": "reasoning", "reasoning": "", "extras": SEALED},
            {"type": "non_standard", "value": REDACTED},
            TEXT,
        ]
    },
    "langchain-aws": {"content": [{"type": "reasoning_content", "reasoning_content": SEALED}, "Step."]},
    "langchain-litellm": {
        "content": "Step.",
        "additional_kwargs": {"reasoning_content": "sealed", "thinking_blocks": [SEALED]},
    },
}
"""The reasoning of an answer, by integration."""


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_all_copies_of_stale_thinking_are_left_out(shape: dict[str, Any]) -> None:
    messages: list[BaseMessage] = [
        message for _ in range(8) for message in (HumanMessage("word " * 300), AIMessage(**shape))
    ]
    session = CompactionController(format=LangChainFormat(), context_window=6_000).session("s")
    record = session.compact_sync(messages, keep_recent_tokens=1_000).record
    assert "sealed" in str(project(messages, record, format=LangChainFormat()))
    view = project(messages, record, format=LangChainFormat(), model=BINDING)
    assert "sealed" not in str(view)
    assert [message.text for message in view[-2:]] == ["word " * 300, "Step."]


@pytest.mark.parametrize(("model", "refusals", "how"), [(BINDING, 0, "sync"), ("my-gateway-model", 1, "async")])
async def test_no_run_of_an_agent_ends_in_a_refusal(stage: Stage, model: str, refusals: int, how: str) -> None:
    """The provider thinks in every step and signs its thoughts; one refusal teaches that an unknown model binds them."""
    side = stage.side(*(reads(f"src/{step}.py", text=f"Step {step}.") for step in range(STEPS)), Answer("Done."))
    signer = side.signer = Signer()
    compaction = CompactionMiddleware(settings=CompactionSettings(keep_recent_tokens=3_000))
    agent = create_agent(
        stage.anthropic(model_name=model), [file_tool(100)], middleware=[compaction], checkpointer=InMemorySaver()
    )
    await streamed(agent, said("Read all files."), how, "messages", {**thread(), "recursion_limit": 4 * STEPS})
    messages = agent.get_state(thread()).values["messages"]
    assert messages[-1].text == "Done."
    assert compaction.session("thread").state().compaction_count >= 2
    assert len(signer.refusals) == refusals
    assert signer.reasoning_share > 0.1
    assert sum("thinking" in str(message.content) for message in messages) == STEPS + 1
