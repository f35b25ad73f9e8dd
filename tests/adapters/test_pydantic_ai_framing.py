"""The summary in a request: pydantic-ai puts no message of its own behind it."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai")

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent

from compaction_hooks import CompactionSettings
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, spoken, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.cases import crossed

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage


@crossed(kind=["openai", "anthropic"], instructions=[None, "You are careful."], persist=[False, True])
async def test_the_request_comes_last(stage: Stage, kind: str, instructions: str | None, persist: bool) -> None:
    side = stage.side()
    compaction = Compaction[None](
        context_window=WINDOW, settings=CompactionSettings(clear_tool_results=False), persist=persist
    )
    agent = Agent(getattr(stage, kind)(), instructions=instructions, capabilities=[compaction])
    first = await agent.run("And now?", message_history=spoken(13))
    await agent.run("And then?", message_history=first.all_messages())
    for sent, asked in zip(side.model_requests, ["And now?", "And then?"], strict=True):
        assert SECRET in texts(sent.messages)
        assert asked in str(sent.messages[-1]["content"])
        assert [message["role"] for message in sent.messages].count("system") == (
            kind == "openai" and bool(instructions)
        )
        assert "<pyai" not in sent.system
