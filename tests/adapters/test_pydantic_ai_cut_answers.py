"""A model whose window is smaller than believed cuts its answers: an agent of pydantic-ai goes on to the end."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction

from tests.adapters import pydantic_ai_stage
from tests.adapters.cut_answers import BELIEVED, MOST, STEPS, WINDOW, cut_off, talkative
from tests.adapters.pydantic_ai_messages import CountingSummarizer, reader
from tests.adapters.pydantic_ai_stage import Stage

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage


@pytest.mark.parametrize(("kind", "told"), [("openai", BELIEVED), ("anthropic", None)])
async def test_a_run_whose_answers_the_window_cuts_reaches_its_end(stage: Stage, kind: str, told: int | None) -> None:
    side = stage.side(*talkative(), window=WINDOW, overflow="cut")
    capability = Compaction[None](context_window=told, summarizer=CountingSummarizer())
    agent = reader(getattr(stage, kind)(), capability, tokens=50)
    settings: Any = {"max_tokens": MOST} if kind == "openai" else None
    result = await agent.run("Read all.", model_settings=settings)
    assert result.output == "All read."
    assert len(result.all_messages()) == 2 + 2 * STEPS
    assert cut_off(side) > 0
