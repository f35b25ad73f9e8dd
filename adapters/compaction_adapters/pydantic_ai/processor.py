"""`history_processor`, for agents that process their history with pydantic-ai's own `ProcessHistory`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, Unpack

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage

from compaction_adapters.kit import ControllerKeywords, controller_from
from compaction_adapters.pydantic_ai.capability import Compaction
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_hooks import CompactionController

HistoryProcessor: TypeAlias = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]


def history_processor(
    controller: CompactionController[Any] | None = None, **keywords: Unpack[ControllerKeywords]
) -> HistoryProcessor:
    """Return a processor for `Agent(capabilities=[ProcessHistory(history_processor(...))])`.

    `ProcessHistory` makes the run's messages what a processor returns, as `Compaction(persist=True)` does, and it cannot send a
    request again: an overflow that the provider reports ends the run. `Compaction` does both better.

    Args:
        controller: A controller, shared or not, whatever its format; or none, and its keywords here.

    Raises:
        ConfigurationError: a controller and its keywords are given.
    """
    made = controller_from(controller, keywords, PydanticAIFormat(), taker=history_processor, sees_model=True)
    compaction: Compaction[Any] = Compaction(made)

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        return await compaction.view(messages, ctx)

    return process
