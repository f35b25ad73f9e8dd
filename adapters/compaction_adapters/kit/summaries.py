"""Summaries by a framework's own models, or by the models of a provider's client."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar, cast

from compaction_hooks import LiveCall, Message, Summarizer, Summary, SummaryRequest, parse_overflow
from compaction_hooks.errors import SummaryRefusedError

A = TypeVar("A")
"""The type of a framework's answers."""
R = TypeVar("R")

SYNC_HELPER = "compaction-sync-helper"
"""The name of the core's thread in which a sync caller's summarizer may block."""
REASONING_TOKENS: Final = 8_192
"""The room for reasoning in the limit of a summary's answer: providers count reasoning as a part of the answer. The newest models
of OpenAI and Anthropic reason unless told not to, and a limit of the summary alone would cut it off. With 4,096 tokens for the
summary it stays below the least that a current model may write (16,384, the family of GPT-4o)."""


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


def ask_client(
    model: str | None, send: Callable[[str, SummaryRequest], Any], read: Callable[[Any], Summary]
) -> Summarizer:
    """Return a summarizer that asks a model of a provider's client, sync or async as the client is.

    Args:
        model: The name of the model; None: that of the call whose messages are summarized.
        send: Asks the model of this name; returns its answer, or an awaitable of it.
        read: Reads the model's answer.
    """

    async def finish(answer: Awaitable[Any]) -> Summary:
        return read(await answer)

    def summarize(request: SummaryRequest) -> Summary | Awaitable[Summary]:
        name = model or (request.live.model if request.live else None)
        if name is None:
            raise SummaryRefusedError("the model is unknown: give model= to the summarizer, the controller or the call")
        answer = send(name, request)
        return finish(answer) if inspect.isawaitable(answer) else read(answer)

    return summarize


def repeat_options(live: LiveCall, left_out: Collection[str]) -> dict[str, Any]:
    """Return the options of a call for one that is made again, without some of them, also in its `extra_body`.

    Raises:
        SummaryRefusedError: the model is unknown.
    """
    request = live.request or {}
    model = live.model or request.get("model")
    if model is None:
        raise SummaryRefusedError("the model is unknown: give model= to the controller or the call")
    kept = _without(request, left_out)
    if isinstance(body := kept.get("extra_body"), Mapping):
        kept["extra_body"] = _without(cast("Mapping[str, Any]", body), left_out)
    return {**kept, "model": model}


def _without(options: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in left_out}


def ask_in_place(
    ask: Callable[[LiveCall, SummaryRequest], Any], read: Callable[[Any], Summary], by_transcript: Summarizer
) -> Summarizer:
    """Return a summarizer that asks the conversation's own model in place where that pays, and otherwise by a transcript.

    Args:
        ask: Sends the messages of a call with its options, sync or async, for an answer of at most the summary and its reasoning.
        read: Reads the model's answer.
    """

    async def finish(answer: Awaitable[Any]) -> Summary:
        return read(await answer)

    def summarize(request: SummaryRequest) -> Summary | Awaitable[Summary]:
        live = request.in_place
        if live is None:
            return cast("Summary | Awaitable[Summary]", by_transcript(request))
        answer = ask(live, request)
        return finish(answer) if inspect.isawaitable(answer) else read(answer)

    return summarize


def with_reasoning_room(ask: Callable[[SummaryRequest, int], Summary | Awaitable[Summary]]) -> Summarizer:
    """Return a summarizer that asks any model for an answer of at most the summary and its reasoning.

    A model that may not write as much, or whose window has no room for it, is asked for the summary alone.

    Args:
        ask: Asks the model for an answer of at most so many tokens, sync or async.
    """

    async def finish(answer: Awaitable[Summary], request: SummaryRequest) -> Summary:
        try:
            return await answer
        except Exception as error:
            if parse_overflow(error) is None:
                raise
        again = ask(request, request.max_tokens)
        return await again if inspect.isawaitable(again) else again

    def summarize(request: SummaryRequest) -> Summary | Awaitable[Summary]:
        try:
            answer = ask(request, request.max_tokens + REASONING_TOKENS)
        except Exception as error:
            if parse_overflow(error) is None:
                raise
            return ask(request, request.max_tokens)
        return finish(answer, request) if inspect.isawaitable(answer) else answer

    return summarize


def summary_of(answer: Message, finish_reason: str | None, *, limit: int | None = None) -> Summary:
    """Return a model's answer as a summary.

    Args:
        finish_reason: The provider's word for how the answer ended; None if unknown.
        limit: The most tokens that the model was asked for: an answer that has them was cut off, whatever word the provider or
            the framework has for it. None: not known.
    """
    if limit is not None and answer.usage is not None and answer.usage.output_tokens >= limit:
        finish_reason = "length"
    calls = tuple({"id": call.id, "name": call.name} for call in answer.calls)
    return Summary(text=answer.text, usage=answer.usage, finish_reason=finish_reason, tool_calls=calls)
