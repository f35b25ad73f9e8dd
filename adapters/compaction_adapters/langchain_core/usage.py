"""The facts of an answer about its call: usage, model and finish reason."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from langchain_core.messages import AIMessage

from compaction_hooks import Message, Usage
from compaction_hooks.formats import read_answer
from compaction_hooks.messages import Part, StopReason


def read_call(message: AIMessage, parts: tuple[Part, ...]) -> Message:
    """Return an assistant message of these parts with usage, model and stop reason, from the fields of any integration."""
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    usage, own = usage_of(message), metadata.get("token_usage") or metadata.get("usage")
    if usage is None and own and (read := read_answer({"usage": own})) is not None:
        usage = read.usage
    return Message(
        role="assistant",
        parts=parts,
        usage=usage,
        model=model if isinstance(model, str) else None,
        stop_reason=_stop_reason((finish_reason(message) or "").lower()),
    )


@lru_cache(maxsize=64)  # every answer of a conversation is read, and providers have few words
def _stop_reason(ending: str) -> StopReason | None:
    read = read_answer({"stop_reason": ending})
    return read.stop_reason if read else None


def finish_reason(message: AIMessage) -> str | None:
    """Return the provider's word for how the answer ended; None if the integration does not give it."""
    metadata = message.response_metadata
    details = metadata.get("incomplete_details")  # of OpenAI's Responses
    cut = cast("Mapping[str, object]", details).get("reason") if isinstance(details, Mapping) else None
    named = [metadata.get(key) for key in ("finish_reason", "stop_reason", "done_reason")]
    return next(
        (reason for reason in [*named, cut, metadata.get("status")] if isinstance(reason, str) and reason), None
    )


def usage_of(message: AIMessage) -> Usage | None:
    """Return the provider's usage. `input_tokens` is the whole input in langchain-core, including its cached part.

    A service tier is a prefix of a detail's key (`priority_cache_read`), and if Anthropic counts cache writes by their lifetime
    (`ephemeral_5m_input_tokens`), `cache_creation` is 0.
    """
    counted = message.usage_metadata
    if counted is None:
        return None
    details = cast("Mapping[str, object]", counted.get("input_token_details") or {})
    return Usage(
        input_tokens=counted["input_tokens"],
        output_tokens=counted["output_tokens"],
        cache_read_tokens=_sum(details, "cache_read"),
        cache_write_tokens=_sum(details, "cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
    )


def _sum(details: Mapping[str, object], *endings: str) -> int:
    return sum(count for key, count in details.items() if isinstance(count, int) and key.endswith(endings))
