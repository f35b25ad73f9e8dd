"""Summaries by a framework's own models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from compaction_hooks import Message, Summarizer, Summary, SummaryRequest

A = TypeVar("A")
"""The type of a framework's answers."""


def asker(
    ask: Callable[[SummaryRequest], A],
    ask_async: Callable[[SummaryRequest], Awaitable[A]],
    read: Callable[[A], Summary],
) -> Summarizer:
    """Return a summariser that asks a model in the way its caller waits.

    Args:
        ask: Asks and waits.
        ask_async: Asks from within an event loop.
        read: Reads the answer.
    """

    async def summarize(request: SummaryRequest) -> Summary:
        # A loop that runs nothing but this call was made for it by a sync caller, and may be blocked. An async client must not be
        # used there: it keeps its connections for later calls, and they die with this loop.
        if len(asyncio.all_tasks()) == 1:
            return read(ask(request))
        return read(await ask_async(request))

    return summarize


def summary_of(answer: Message, finish_reason: str | None) -> Summary:
    """Return the summary that a model's answer is.

    Args:
        finish_reason: The provider's word for how the answer ended; None when unknown.
    """
    calls = tuple({"id": call.id, "name": call.name} for call in answer.calls)
    return Summary(text=answer.text, usage=answer.usage, finish_reason=finish_reason, tool_calls=calls)
