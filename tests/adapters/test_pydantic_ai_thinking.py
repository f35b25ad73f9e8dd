"""Agents of pydantic-ai on models that bind their thinking to what stood before it, behind its own Anthropic model."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("anthropic")

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent
from pydantic_ai.usage import UsageLimits

from compaction_hooks import CompactionFinished, CompactionSettings
from compaction_hooks.events import CompactionEvent
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_stage import Stage
from tests.provider import Answer, Call, Signer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

STEPS = 30


@pytest.mark.parametrize(
    ("model", "persist", "refusals"), [("claude-opus-5-5", True, 0), ("my-gateway-model", False, 1)]
)
async def test_no_run_ends_in_a_refusal(stage: Stage, model: str, persist: bool, refusals: int) -> None:
    side = stage.side(*(Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(STEPS)))
    signer = side.signer = Signer()
    events = list[CompactionEvent]()
    compaction = Compaction(
        context_window=8_192,
        settings=CompactionSettings(keep_recent_tokens=2_000),
        on_compaction=events.append,
        persist=persist,
    )
    agent: Agent[None, str] = Agent(stage.anthropic(model=model), capabilities=[compaction])

    @agent.tool_plain
    def read(part: int) -> str:
        return f"line of part {part}\n" * 150

    run = await agent.run("Read all parts.", usage_limits=UsageLimits(request_limit=None))
    assert run.output == "Done."
    assert sum(isinstance(event, CompactionFinished) for event in events) >= 2
    assert len(signer.refusals) == refusals
    assert signer.reasoning_share > 0.1  # a small window: each few steps compact
