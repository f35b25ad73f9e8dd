"""Documents and images that are too large for a request, in an agent of pydantic-ai."""

from __future__ import annotations

import base64

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from tests.adapters import pydantic_ai_stage
from tests.adapters.large_media import (
    IMAGES,
    LIMIT_BYTES,
    PDF,
    assert_document_left_out,
    assert_images_left_out,
    image,
)
from tests.adapters.pydantic_ai_messages import CountingSummarizer
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage


def seen(text: str, data: str, media_type: str) -> ModelMessage:
    content = BinaryContent(base64.b64decode(data), media_type=media_type)
    return ModelRequest(parts=[UserPromptPart([text, content])])


async def test_a_document_larger_than_it_seems_is_left_out(stage: Stage) -> None:
    side = stage.side(Answer("Fine."))
    capability = Compaction[None](context_window=WINDOW, summarizer=CountingSummarizer())
    history: list[ModelMessage] = [seen("Read this.", PDF, "application/pdf")]
    agent = Agent(stage.anthropic(), capabilities=[capability])
    assert (await agent.run("And now?", message_history=history)).output == "Fine."
    assert_document_left_out(side)


async def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest(stage: Stage) -> None:
    side = stage.side(Answer("Fine."), window=100_000)
    side.limit_bytes = LIMIT_BYTES
    capability = Compaction[None](context_window=100_000, summarizer=CountingSummarizer())
    history: list[ModelMessage] = []
    for number in range(IMAGES):
        history += [
            seen(f"Picture {number}.", image(number), "image/png"),
            ModelResponse(parts=[TextPart("Seen.")]),
        ]
    agent = Agent(stage.openai(), capabilities=[capability])
    assert (await agent.run("And now?", message_history=history)).output == "Fine."
    assert_images_left_out(side)
