"""What pydantic-ai's models make of overflows in every wording: recognized, and recovered, over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent
from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
)
from pydantic_ai.models.fallback import FallbackModel

from compaction_hooks import is_context_overflow, parse_overflow
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import reader, spoken
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import WORDINGS, Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
SPOKEN = sorted(set(WORDINGS) - {"cerebras"})
"""An error without any words says nothing, unless it is known to be Cerebras that sent it."""


@pytest.mark.parametrize(
    ("wording", "kind", "streamed"), [("groq", "openai", False), ("anthropic_sum", "anthropic", True)]
)
async def test_an_overflow_in_another_providers_words_is_recovered(
    wording: str, kind: str, streamed: bool, stage: Stage
) -> None:
    side = stage.side(Answer("Done."), wording=wording)
    side.reject_next = 1
    agent = reader(getattr(stage, kind)(), Compaction(context_window=WINDOW), model_settings={"max_tokens": 500})
    if streamed:
        async with agent.run_stream("Go on.", message_history=spoken(6)) as result:
            assert await result.get_output() == "Done."
    else:
        assert (await agent.run("Go on.", message_history=spoken(6))).output == "Done."
    assert [request.status for request in side.model_requests] == [WORDINGS[wording].status, 200]


@KINDS
async def test_errors_of_every_wording_are_recognised(kind: str, stage: Stage) -> None:
    """Alone, and in the group that a fallback makes of them; with the limit where the sentence has it."""
    model = getattr(stage, kind)()
    for wording in SPOKEN:
        stage.side(wording=wording).reject_next = 3
        alone, group = await raised_by(model), await raised_by(FallbackModel(model, model))
        assert isinstance(alone, ModelHTTPError)
        assert isinstance(group, FallbackExceptionGroup)
        for error in (alone, group):
            info = parse_overflow(error)
            assert is_context_overflow(error), wording
            assert info is not None
            assert info.limit_tokens == (WINDOW if "{limit}" in WORDINGS[wording].text else None), wording


@KINDS
async def test_the_frameworks_own_error_is_recognised(kind: str, stage: Stage) -> None:
    """`ModelContextWindowExceededError`, alone and in the group that a fallback makes of it."""
    stage.side().reject_next = 3
    model = getattr(stage, kind)()
    alone, group = await raised_by(model), await raised_by(FallbackModel(model, model))
    assert isinstance(alone, ModelContextWindowExceededError)
    assert is_context_overflow(alone)
    assert is_context_overflow(group)
    assert is_context_overflow(ModelContextWindowExceededError("m", "no words of any provider"))


async def raised_by(model: Any) -> Exception:
    with pytest.raises((ModelAPIError, FallbackExceptionGroup)) as caught:
        await Agent(model).run("Go on.", model_settings={"max_tokens": 500})
    return caught.value
