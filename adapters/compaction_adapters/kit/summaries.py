"""Summaries by a framework's own models."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from compaction_hooks import Message

if TYPE_CHECKING:  # no quiet call has a summary
    from compaction_hooks import Summary, SummaryRequest

A = TypeVar("A")
"""The type of a framework's answers."""
R = TypeVar("R")

SYNC_HELPER = "compaction-sync-helper"
"""The name of the core's thread in which a sync caller's summarizer may block."""


def asker(
    ask: Callable[[SummaryRequest], A],
    ask_async: Callable[[SummaryRequest], Awaitable[A]],
    read: Callable[[A], R],
) -> Callable[[SummaryRequest], R | Awaitable[R]]:
    """Return a summarizer that asks a model, sync or async as its caller is.

    Args:
        ask: Asks the model and blocks.
        ask_async: Asks the model from an event loop.
        read: Reads the model's answer.
    """

    async def summarize_async(request: SummaryRequest) -> R:
        return read(await ask_async(request))

    def summarize(request: SummaryRequest) -> R | Awaitable[R]:
        # The core's loop for sync callers is no place for a model's async client: the host may use it in a loop of its own.
        if threading.current_thread().name == SYNC_HELPER:
            return read(ask(request))
        return summarize_async(request)

    return summarize


def summary_of(answer: Message, finish_reason: str | None) -> Summary:
    """Return a model's answer as a summary.

    Args:
        finish_reason: The provider's word for how the answer ended; None if unknown.
    """
    from compaction_hooks import Summary

    calls = tuple({"id": call.id, "name": call.name} for call in answer.calls)
    return Summary(text=answer.text, usage=answer.usage, finish_reason=finish_reason, tool_calls=calls)
