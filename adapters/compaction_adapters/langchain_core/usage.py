"""What an answer says about the call that made it: what was counted, by which model, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from langchain_core.messages import AIMessage

from compaction_hooks import Message, Usage
from compaction_hooks.formats import OpenAIChatFormat

_OPENAI: Final = OpenAIChatFormat()


def call_facts(message: AIMessage) -> Message:
    """Return an assistant message without parts that carries usage, model and stop reason."""
    facts = response_facts(message)
    return _OPENAI.read(facts)[0] if message.usage_metadata is None else _counted(message, facts)


def _counted(message: AIMessage, facts: Mapping[str, object]) -> Message:
    read = _OPENAI.read({key: value for key, value in facts.items() if key != "usage"})[0]
    return Message(role="assistant", parts=(), usage=usage_of(message), model=read.model, stop_reason=read.stop_reason)


def response_facts(message: AIMessage) -> dict[str, object]:
    """Return usage, model and finish reason under OpenAI's names, from wherever the integration put them."""
    metadata = message.response_metadata
    usage = metadata.get("token_usage") or metadata.get("usage")
    return {
        "role": "assistant",
        "model": metadata.get("model_name") or metadata.get("model"),
        "finish_reason": (finish_reason(message) or "").lower(),
        **({"usage": usage} if isinstance(usage, Mapping) else {}),
    }


def finish_reason(message: AIMessage) -> str | None:
    """Return the provider's word for how the answer ended; None where the integration does not say."""
    metadata = message.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    details = metadata.get("incomplete_details")
    if reason is None and isinstance(details, Mapping):  # OpenAI Responses
        reason = cast("Mapping[str, object]", details).get("reason")
    if reason is None:
        reason = metadata.get("status")
    return reason if isinstance(reason, str) else None


def usage_of(message: AIMessage) -> Usage | None:
    """Return what the provider counted. `input_tokens` is the whole input in langchain-core, cached part included.

    A service tier is written before the key of a detail (`priority_cache_read`), and where Anthropic tells cache writes apart
    by their lifetime (`ephemeral_5m_input_tokens`), `cache_creation` is 0.
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
