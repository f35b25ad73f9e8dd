"""Documents and images that are too large for a request, in the blocks of LangChain, Anthropic and OpenAI."""

from __future__ import annotations

from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, HumanMessage

from tests.adapters.langchain_core_stage import CountingSummarizer, Stage
from tests.adapters.large_media import PDF, assert_document_left_out
from tests.provider import Answer

SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}
DOCUMENTS = [
    {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "report.pdf"},
    {"type": "document", "title": "report.pdf", "source": SOURCE},
]


async def ask(model: Any, messages: list[BaseMessage]) -> str:
    agent: Any = create_agent(model, middleware=[CompactionMiddleware(summarizer=CountingSummarizer())])
    return str((await agent.ainvoke({"messages": messages}))["messages"][-1].text)


def shown(text: str, block: Any) -> HumanMessage:
    return HumanMessage([{"type": "text", "text": text}, block])


@pytest.mark.parametrize("document", DOCUMENTS, ids=["LangChain", "Anthropic"])
async def test_a_document_larger_than_it_seems_is_left_out(stage: Stage, document: Any) -> None:
    side = stage.side(Answer("Fine."))
    assert await ask(stage.anthropic(), [shown("Read this.", document), HumanMessage("And now?")]) == "Fine."
    assert_document_left_out(side)
