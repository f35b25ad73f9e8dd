"""Programs with pydantic-ai's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest

from compaction_hooks import CompactionResult

if TYPE_CHECKING:
    from typing import assert_type

compaction = Compaction[None](context_window=16_384)
spoken: list[ModelMessage] = [ModelRequest.user_text_prompt("Port the parser.")]


async def by_hand(ctx: RunContext[None]) -> None:
    """With an id a compaction returns what it returns in all adapters; else the messages to keep."""
    assert_type(await compaction.compact(spoken), list[ModelMessage])
    assert_type(await compaction.compact(spoken, ctx), list[ModelMessage])
    assert_type(await compaction.compact(spoken, "thread-1", focus="the parser"), CompactionResult[ModelMessage])
    assert_type(await compaction.compact(spoken, conversation_id="thread-1"), CompactionResult[ModelMessage])
    assert_type(compaction.compact_sync(spoken), list[ModelMessage])
    assert_type(compaction.compact_sync(spoken, "thread-1"), CompactionResult[ModelMessage])
