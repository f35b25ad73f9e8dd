"""Documents and images that are too large for a request, through LiteLLM."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import with_compaction

from tests.adapters import litellm_stage
from tests.adapters.large_media import (
    IMAGES,
    LIMIT_BYTES,
    PDF,
    assert_document_left_out,
    assert_images_left_out,
    image,
)
from tests.adapters.litellm_stage import Stage, litellm, said
from tests.conversations import Scripted, assistant, user
from tests.provider import Answer

pytestmark = litellm_stage.QUIET
provider, stage = litellm_stage.provider, litellm_stage.stage


def seen(text: str, media: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}, media]}


def test_a_document_larger_than_it_seems_is_left_out(stage: Stage) -> None:
    side = stage.side(Answer("Fine."))
    made = with_compaction(litellm.completion, context_window=8_192, summarizer=Scripted())
    file = {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    messages = [seen("Read this.", {"type": "file", "file": file}), user("And now?")]
    assert said(made(messages=messages, **stage.anthropic())) == "Fine."
    assert_document_left_out(side)


async def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest(stage: Stage) -> None:
    side = stage.side(Answer("Fine."), window=100_000)
    side.limit_bytes = LIMIT_BYTES
    made = with_compaction(litellm.acompletion, context_window=100_000, summarizer=Scripted())
    messages: list[Any] = []
    for number in range(IMAGES):
        url = {"url": f"data:image/png;base64,{image(number)}"}
        messages += [seen(f"Picture {number}.", {"type": "image_url", "image_url": url}), assistant("Seen.")]
    assert said(await made(messages=[*messages, user("And now?")], **stage.openai())) == "Fine."
    assert_images_left_out(side)
