"""Agents of LangChain on models that bind their thinking to what stood before it, behind Anthropic's own integration."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_anthropic")

from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionController, CompactionSettings, project
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, file_tool, reads, thread
from tests.provider import Answer, Signer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

BINDING = "claude-sonnet-5-5"
HIDDEN = "my-gateway-model"
STEPS = 24


SHAPES: list[dict[str, Any]] = [
    {
        "content": [
            {"type": "thinking", "thinking": "", "signature": "sealed"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "Step."},
        ]
    },
    {
        "content": [
            {"type": "reasoning", "reasoning": "", "extras": {"signature": "sealed"}},
            {"type": "non_standard", "value": {"type": "redacted_thinking", "data": "sealed"}},
            {"type": "text", "text": "Step."},
        ]
    },
    {"content": [{"type": "reasoning_content", "reasoning_content": {"signature": "sealed"}}, "Step."]},
    {
        "content": "Step.",
        "additional_kwargs": {"reasoning_content": "sealed", "thinking_blocks": [{"signature": "sealed"}]},
    },
]
"""As langchain-anthropic, langchain-core, langchain-aws and langchain-litellm have the reasoning of an answer."""


@pytest.mark.parametrize("shape", SHAPES)
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


def signing(stage: Stage) -> Signer:
    """A provider that thinks in every step and signs what it thought."""
    side = stage.side(*(reads(f"src/{step}.py", text=f"Step {step}.") for step in range(STEPS)), Answer("Done."))
    side.signer = Signer()
    return side.signer


@pytest.mark.parametrize(("model", "refusals", "how"), [(BINDING, 0, "invoke"), (HIDDEN, 1, "stream")])
async def test_no_run_of_an_agent_ends_in_a_refusal(stage: Stage, model: str, refusals: int, how: str) -> None:
    signer = signing(stage)
    middleware = CompactionMiddleware(settings=CompactionSettings(keep_recent_tokens=3_000))
    agent = create_agent(
        stage.anthropic(model_name=model),
        [file_tool(100)],
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )
    asked: Any = {"messages": [("user", "Read all files.")]}
    config: Any = {**thread(), "recursion_limit": 4 * STEPS}
    if how == "invoke":
        await agent.ainvoke(asked, config)
    else:
        async for _ in agent.astream(asked, config, stream_mode="messages"):
            pass
    messages = agent.get_state(thread()).values["messages"]
    assert messages[-1].text == "Done."
    assert middleware.session("thread").state().compaction_count >= 2
    assert len(signer.refusals) == refusals
    assert signer.reasoning_share > 0.1
    assert sum("thinking" in str(message.content) for message in messages) == STEPS + 1
