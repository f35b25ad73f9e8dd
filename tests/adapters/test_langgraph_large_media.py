"""Documents and images that are too large for a request, to a model that `wrap` returned."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from compaction_adapters.langgraph import CompactionNode
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


def test_a_document_larger_than_it_seems_is_left_out(stage: Stage) -> None:
    """Written as Anthropic's own block."""
    side = stage.side(Answer("Fine."))
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    document = {"type": "document", "title": "report.pdf", "source": source}
    model = CompactionNode(summarizer=CountingSummarizer()).wrap(stage.anthropic())
    answer: Any = model.invoke([HumanMessage([{"type": "text", "text": "Read this."}, document]), HumanMessage("Now?")])
    assert answer.text == "Fine."
    assert_document_left_out(side)


def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest(stage: Stage) -> None:
    """Written as OpenAI's own parts."""
    side = stage.side(Answer("Fine."), window=100_000)
    side.limit_bytes = LIMIT_BYTES
    history: list[BaseMessage] = []
    for number in range(IMAGES):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image(number)}"}}
        history += [HumanMessage([{"type": "text", "text": f"Picture {number}."}, picture]), AIMessage("Seen.")]
    model = CompactionNode(summarizer=CountingSummarizer()).wrap(stage.openai(100_000))
    answer: Any = model.invoke([*history, HumanMessage("And now?")])
    assert answer.text == "Fine."
    assert_images_left_out(side)
