"""Agents of LangChain on models that bind their thinking to what stood before it, behind Anthropic's own integration."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_anthropic")
pytest.importorskip("uvicorn")

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionSettings
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import Stage, file_tool, reads, thread
from tests.provider import Answer, Side, Signer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

BINDING = "claude-sonnet-5-5"
HIDDEN = "my-gateway-model"
STEPS = 24


def signing(stage: Stage) -> tuple[Side, Signer]:
    """A provider that thinks in every step and signs what it thought."""
    side = stage.side(*(reads(f"src/{step}.py", text=f"Step {step}.") for step in range(STEPS)), Answer("Done."))
    signer = side.signer = Signer()
    return side, signer


@pytest.mark.parametrize(("model", "refusals", "how"), [(BINDING, 0, "invoke"), (HIDDEN, 1, "stream")])
async def test_no_run_of_an_agent_ends_in_a_refusal(stage: Stage, model: str, refusals: int, how: str) -> None:
    side, signer = signing(stage)
    middleware = CompactionMiddleware(settings=CompactionSettings(keep_recent_tokens=3_000))
    agent = create_agent(
        stage.anthropic(model_name=model),
        [file_tool(100)],
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )
    asked = {"messages": [("user", "Read all files.")]}
    config = {**thread(), "recursion_limit": 4 * STEPS}
    if how == "invoke":
        await agent.ainvoke(asked, config)
    else:
        async for _ in agent.astream(asked, config, stream_mode="messages"):
            pass
    messages = agent.get_state(thread()).values["messages"]
    assert messages[-1].text == "Done."
    assert middleware.session("thread").state().compaction_count >= 2
    assert len(signer.refusals) == refusals
    assert signer.kept > 0.1
    assert sum("thinking" in str(message.content) for message in messages) == STEPS + 1
