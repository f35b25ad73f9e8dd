"""Documents and images that are too large for a request, in an agent of LangChain."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain.agents")

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage
from tests.adapters.large_media import (
    IMAGES,
    LIMIT_BYTES,
    PDF,
    assert_document_left_out,
    assert_images_left_out,
    image,
)
from tests.provider import Answer

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage


async def ask(model: Any, messages: list[BaseMessage]) -> str:
    agent: Any = create_agent(model, middleware=[CompactionMiddleware(summarizer=CountingSummarizer())])
    return str((await agent.ainvoke({"messages": messages}))["messages"][-1].text)


async def test_a_document_larger_than_it_seems_is_left_out(stage: Stage) -> None:
    side = stage.side(Answer("Fine."))
    document = {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "report.pdf"}
    history = [HumanMessage([{"type": "text", "text": "Read this."}, document]), HumanMessage("And now?")]
    assert await ask(stage.anthropic(), [*history]) == "Fine."
    assert_document_left_out(side)


async def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest(stage: Stage) -> None:
    side = stage.side(Answer("Fine."), window=100_000)
    side.limit_bytes = LIMIT_BYTES
    history: list[BaseMessage] = []
    for number in range(IMAGES):
        picture = {"type": "image", "base64": image(number), "mime_type": "image/png"}
        history += [HumanMessage([{"type": "text", "text": f"Picture {number}."}, picture]), AIMessage("Seen.")]
    assert await ask(stage.openai(100_000), [*history, HumanMessage("And now?")]) == "Fine."
    assert_images_left_out(side)
