"""Tools that the provider runs for pydantic-ai's agents, over real HTTP: summaries know their queries and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)
pytest.importorskip("uvicorn")

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import CountingSummarizer, reader, spoken
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

BLOCKS: list[Mapping[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "parser release notes"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "title": "Parser 4.2 mends it",
                "url": "https://example.org/notes",
                "encrypted_content": "Eq4BCioISEALED",
            }
        ],
    },
    {"type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution", "input": {"command": "make check"}},
    {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "srvtoolu_2",
        "content": {
            "type": "bash_code_execution_result",
            "stdout": "3 failed",
            "stderr": "",
            "return_code": 2,
            "content": [],
        },
    },
    {
        "type": "mcp_tool_use",
        "id": "mcptoolu_1",
        "name": "find_ticket",
        "server_name": "tracker",
        "input": {"words": "parser"},
    },
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": True,
        "content": [{"type": "text", "text": "the tracker is down"}],
    },
]


def edited(messages: list[ModelMessage], old: str, new: str) -> list[ModelMessage]:
    """The same conversation from a file, with another word in it."""
    stored = ModelMessagesTypeAdapter.dump_json(messages)
    assert old.encode() in stored
    return ModelMessagesTypeAdapter.validate_json(stored.replace(old.encode(), new.encode()))


async def test_their_queries_and_output_reach_the_summary_and_name_the_conversation(stage: Stage) -> None:
    side = stage.side(*(Answer(f"Answer {n}.") for n in range(3)))
    side.blocks = BLOCKS
    summarizer = CountingSummarizer()
    compaction = Compaction[None](context_window=WINDOW, summarizer=summarizer)
    agent = reader(stage.anthropic(), compaction)
    first = await agent.run("Which release mends it?", conversation_id="thread")
    messages = [*first.all_messages(), *spoken(20)]
    side.blocks = ()
    await agent.run("Go on.", message_history=messages, conversation_id="thread")
    (request,) = summarizer.asked
    for told in (
        "parser release notes",
        "Parser 4.2 mends it",
        "make check",
        "3 failed",
        "find_ticket",
        "tracker is down",
    ):
        assert told in request.transcript
    assert "SEALED" not in request.transcript
    session = compaction.session("thread")
    view = await session.transform_context(messages)
    assert len(view) < len(messages)
    resealed = edited(messages, "Eq4BCioISEALED", "Fr5CDjpJ")
    assert await session.transform_context(resealed) == view
    for number, (old, new) in enumerate([("4.2", "4.3"), ("3 failed", "all passed"), ("is down", "is up")], 1):
        await session.transform_context(edited(messages, old, new), summarizer=summarizer)
        assert len(summarizer.asked) == 1 + number
        assert new in summarizer.asked[-1].transcript


async def test_what_is_kept_goes_back_to_the_provider_as_it_came(stage: Stage) -> None:
    side = stage.side(Answer("One."), Answer("Two."))
    compaction = Compaction[None](context_window=WINDOW, summarizer=CountingSummarizer())
    agent = reader(stage.anthropic(), compaction)
    side.blocks = BLOCKS
    first = await agent.run("Which release mends it?", message_history=spoken(12))
    await agent.run("Go on.", message_history=first.all_messages())
    assert side.rejections == []
    sent: list[Any] = [block for message in side.model_requests[-1].messages for block in message["content"]]
    kept = [block["type"] for block in sent if block["type"] != "text"]
    assert kept == [block["type"] for block in BLOCKS]
