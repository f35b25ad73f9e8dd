"""pydantic-ai's `CachePoint` on messages that a summary covers moves to the summary, so that prompt caching goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction, PydanticAIFormat
from pydantic_ai.messages import CachePoint, ModelMessage, ModelRequest, UserPromptPart

from compaction_hooks import CompactionController, CompactionSettings
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import CountingSummarizer, reader, spoken
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.conversations import prose
from tests.provider import Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage


def marked(turns: int, *marks: int) -> list[ModelMessage]:
    """A conversation with cache points in some of its questions; the first lives an hour, the others five minutes."""
    messages = spoken(turns)
    for turn in marks:
        point = CachePoint(ttl="1h" if turn == min(marks) else "5m")
        messages[2 * turn] = ModelRequest(parts=[UserPromptPart([f"Question {turn}. {prose(500)}", point])])
    return messages


def points(view: Sequence[ModelMessage]) -> list[tuple[int, CachePoint]]:
    prompts = [(place, part) for place, m in enumerate(view) for part in m.parts if isinstance(part, UserPromptPart)]
    return [(place, item) for place, part in prompts for item in part.content if isinstance(item, CachePoint)]


def hook() -> CompactionController[ModelMessage]:
    return CompactionController(
        context_window=WINDOW,
        format=PydanticAIFormat(),
        summarizer=CountingSummarizer(),
        settings=CompactionSettings(auto_compact=False),
    )


async def test_it_reaches_the_provider_on_the_summary(stage: Stage) -> None:
    side = stage.side(Answer("Done."))
    agent = reader(stage.anthropic(), Compaction(context_window=WINDOW, summarizer=CountingSummarizer()))
    await agent.run("Go on.", message_history=marked(20, 1, 3))
    blocks = [block for message in side.model_requests[0].messages for block in message["content"]]
    (with_mark,) = [block for block in blocks if "cache_control" in block]
    assert "[Conversation summary]" in with_mark["text"]
    assert with_mark["cache_control"]["ttl"] == "5m"


async def test_the_last_one_moves_and_those_of_kept_messages_stay() -> None:
    messages, hooks = marked(10, 1, 3, 9), hook()
    view = (await hooks.compact(messages, keep_recent_tokens=2_500)).messages
    assert points(view) == [(0, CachePoint()), (len(view) - 2, CachePoint())]
    assert [place for place, _ in points(messages)] == [2, 6, 18]
    # The host stores the view; the next summary takes the mark over.
    again = (await hooks.compact([*view[:-2], *spoken(10)], keep_recent_tokens=2_500)).messages
    assert points(again) == [(0, CachePoint())]
    assert hooks.state().compaction_count == 2


async def test_a_host_that_moves_its_mark_on_never_sends_one_more_than_it_has() -> None:
    hooks = hook()
    await hooks.compact(marked(10, 3), keep_recent_tokens=2_500)
    assert len(points(await hooks.transform_context(marked(12, 3)))) == 1
    assert len(points(await hooks.transform_context(marked(12, 11)))) == 1
