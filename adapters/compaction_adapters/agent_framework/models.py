"""Summaries by a chat client's model, and the usage and end of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from agent_framework import ChatResponse, ChatResponseUpdate, Content, UsageDetails, add_usage_details
from agent_framework import Message as ChatMessage

from compaction_adapters.agent_framework.clients import Send, find_send
from compaction_adapters.agent_framework.messages import AgentFrameworkFormat
from compaction_adapters.kit import REASONING_TOKENS, ask_in_place, summary_of, with_reasoning_room
from compaction_hooks import LiveCall, Message, Summarizer, Summary, SummaryRequest, Usage
from compaction_hooks.formats import read_answer

SENT: Final = "agent_framework_sent"
"""The option of a call that holds its `Sent`."""


def summarizer(client: Any, model: str | None = None) -> Summarizer:
    """Return a summarizer that asks a chat client, without its middleware.

    Args:
        client: Any client of the framework.
        model: The name of its model; None: the client's own.

    Raises:
        ConfigurationError: the client is none of the framework's.
    """
    return ask_by(find_send(client), {} if model is None else {"model": model})


def ask_by(send: Send, options: Mapping[str, object]) -> Summarizer:
    """Return a summarizer that asks by a client's own function.

    Args:
        options: The options that name the model and the place of the call.
    """

    async def ask(request: SummaryRequest, limit: int) -> Summary:
        told = {**options, "instructions": request.system, "max_tokens": limit}
        prompt = ChatMessage("user", [request.prompt])
        return _read_summary(await send(messages=[prompt], stream=False, options=told), limit)

    return with_reasoning_room(ask)


class Sent(NamedTuple):
    """A call: the client's function, and the options."""

    send: Send
    options: Mapping[str, object]


def in_place(client: Any, model: str | None = None) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call where that costs less than a
    transcript and fits; otherwise, and once if the answer is no summary, a model is asked as by `summarizer`.

    Args:
        client, model: As in `summarizer`: for the summaries by a transcript.

    Raises:
        ConfigurationError: as `summarizer`.
    """
    return in_place_or(summarizer(client, model))


def in_place_or(by_transcript: Summarizer) -> Summarizer:
    """Return a summarizer that asks in place by the last call, and otherwise as the given one."""

    async def ask(live: LiveCall, request: SummaryRequest) -> Summary:
        sent, limit = cast("Sent", (live.request or {})[SENT]), request.max_tokens + REASONING_TOKENS
        options = {**sent.options, "max_tokens": limit}
        return _read_summary(await sent.send(messages=[*live.messages], stream=False, options=options), limit)

    return ask_in_place(ask, lambda summary: summary, by_transcript)


def _read_summary(response: ChatResponse, limit: int) -> Summary:
    pieces = [piece for message in response.messages for piece in AgentFrameworkFormat().read(message)]
    parts = tuple(part for piece in pieces for part in piece.parts)
    answer = Message(role="assistant", parts=parts, usage=usage_of(response.usage_details))
    return summary_of(answer, response.finish_reason, limit=limit)


class AnswerReader:
    """Reads the answers of one model call: its usage, the model that answered, and how it ended."""

    def __init__(self) -> None:
        self._usage: UsageDetails | None = None

    def read(self, response: ChatResponse) -> Message:
        """Read a whole answer."""
        return _answer(response, response.usage_details)

    def begin_stream(self) -> None:
        """Forget the usage of an earlier attempt."""
        self._usage = None

    def count(self, update: ChatResponseUpdate) -> None:
        """Add the usage in a part of a streamed answer, which the framework tells in increments, or anew."""
        for content in filter(_has_usage, update.contents):
            replaces = getattr(content, "merge_mode", None) == "replace"
            self._usage = add_usage_details(None if replaces else self._usage, content.usage_details)

    def read_update(self, update: ChatResponseUpdate) -> Message | None:
        """Read a part of a streamed answer that was counted; None unless it has usage or the end."""
        has_more = update.finish_reason is not None or any(map(_has_usage, update.contents))
        return _answer(update, self._usage) if has_more else None


def _has_usage(content: Content) -> bool:
    return content.type == "usage"


def is_prelude(update: ChatResponseUpdate) -> bool:
    """Return whether a part of a streamed answer comes before its first content."""
    return all(content.type in ("usage", "text") and not content.text for content in update.contents)


def _answer(response: ChatResponse | ChatResponseUpdate, details: UsageDetails | None) -> Message:
    ending = read_answer({"stop_reason": response.finish_reason})
    return Message(
        role="assistant",
        parts=(),
        usage=usage_of(details),
        model=response.model,
        stop_reason=ending.stop_reason if ending else None,
    )


def usage_of(details: Mapping[str, Any] | None) -> Usage | None:
    """Return the usage of one model call, with all input counted once; None if there is none.

    The clients pass their provider's count on: OpenAI's includes cached tokens, Anthropic's does not.
    """
    if not details or details.get("input_token_count") is None:
        return None
    counted, output = details["input_token_count"], details.get("output_token_count") or 0
    read = details.get("cache_read_input_token_count") or 0
    written = details.get("cache_creation_input_token_count") or 0
    excludes_cached = any(name.startswith("anthropic.") for name in details) or read + written > counted
    whole = counted + (read + written) * excludes_cached
    return Usage(input_tokens=whole, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)


def text_of(instructions: str | Sequence[str] | None) -> str:
    """Return the system prompt in the options of a call."""
    return instructions if isinstance(instructions, str) else "\n".join(instructions or ())
