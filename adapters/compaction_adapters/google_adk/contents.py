"""Gemini contents, as ADK's requests and responses hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from compaction_hooks import Message, MessageFormat
from compaction_hooks.formats import GeminiFormat, read_answer
from compaction_hooks.messages import StopReason


class ContentsFormat(GeminiFormat):
    """Gemini's format, which reads Google's objects and writes dicts."""


FORMAT: Final = cast("MessageFormat[types.Content]", ContentsFormat())

_STOP_REASONS: Final[dict[types.FinishReason | None, StopReason]] = {
    types.FinishReason.STOP: "complete",
    types.FinishReason.MAX_TOKENS: "length",
    # ADK's name for every stop reason of Claude that it does not know (2.13): the others are in its table.
    types.FinishReason.FINISH_REASON_UNSPECIFIED: "window",
}


def with_contents(request: LlmRequest, view: Sequence[object]) -> LlmRequest:
    """Return a copy of a request with this view; the model may change its contents and options."""
    contents = [one if isinstance(one, types.Content) else types.Content.model_validate(one) for one in view]
    return request.model_copy(update={"contents": contents, "config": request.config.model_copy()})


def is_copy(content: types.Content, other: types.Content) -> bool:
    """Return whether two contents say the same; pydantic's own comparison takes several times as long."""
    parts, others = content.parts or [], other.parts or []
    if content.role != other.role or len(parts) != len(others):
        return False
    return all(part.__dict__ == another.__dict__ for part, another in zip(parts, others, strict=True))


def read_response(response: LlmResponse) -> Message | None:
    """Return the usage and the stop reason of a response, as a message without parts; None without either."""
    answer, stop_reason = read_answer(response), _STOP_REASONS.get(response.finish_reason)
    if answer is None and stop_reason is None:
        return None
    return replace(answer or Message(role="assistant", parts=()), stop_reason=stop_reason)
