"""Summaries by a framework's own models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from compaction_hooks import Message, Summary, SummaryRequest

A = TypeVar("A")
"""The type of a framework's answers."""
R = TypeVar("R")


def asker(
    ask: Callable[[SummaryRequest], A],
    ask_async: Callable[[SummaryRequest], Awaitable[A]],
    read: Callable[[A], R],
) -> Callable[[SummaryRequest], Awaitable[R]]:
    """Return a summarizer that asks a model, sync or async as its caller is.

    Args:
        ask: Asks the model and blocks.
        ask_async: Asks the model from an event loop.
        read: Reads the model's answer.
    """

    async def summarize(request: SummaryRequest) -> R:
        # A loop with no other task was made for this call by a sync caller, and may be blocked. An async client must not be used
        # there: it keeps its connections for later calls, and they die with this loop.
        if len(asyncio.all_tasks()) == 1:
            return read(ask(request))
        return read(await ask_async(request))

    return summarize


def summary_of(answer: Message, finish_reason: str | None) -> Summary:
    """Return a model's answer as a summary.

    Args:
        finish_reason: The provider's word for how the answer ended; None if unknown.
    """
    calls = tuple({"id": call.id, "name": call.name} for call in answer.calls)
    return Summary(text=answer.text, usage=answer.usage, finish_reason=finish_reason, tool_calls=calls)
