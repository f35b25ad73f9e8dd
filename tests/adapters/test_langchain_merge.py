"""`merge_user_messages=True` with langchain-core's messages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from compaction_adapters.langchain_core import LangChainFormat
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from compaction_hooks import CompactionController, CompactionSettings
from tests.conversations import prose


def test_a_summary_and_the_request_behind_it_are_one_human_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    messages: list[BaseMessage] = []
    for n in range(20):
        asked: list[Any] = [{"type": "text", "text": f"Question {n}: {prose(200)}"}, image]
        messages += [HumanMessage(asked, id=f"asked-{n}"), AIMessage(prose(200), id=f"said-{n}")]
    before = [message.model_copy(deep=True) for message in messages]
    settings = CompactionSettings(merge_user_messages=True)
    hooks = CompactionController(context_window=8_192, settings=settings, format=LangChainFormat())
    first, *kept = view = hooks.transform_context_sync(messages)
    assert hooks.state().compaction_count == 1
    assert not any(isinstance(one, HumanMessage) and isinstance(other, HumanMessage) for one, other in pairwise(view))
    assert [block["type"] for block in first.content if isinstance(block, dict)] == ["text", "text", "image_url"]
    assert "[Conversation summary]" in str(first.content)
    assert first.id == messages[-len(view)].id
    assert messages == before
    assert all(any(message is own for own in messages) for message in kept)
