"""Responses without the fields that tell a provider of earlier reasoning: OpenAI's ids of items, Google's signatures."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import is_
from typing import Final

from pydantic_ai import messages as ai

SIGNATURE: Final = "thought_signature"
"""The key of Google's signature in a part's `provider_details`. pydantic-ai itself sends Google's placeholder for a missing one."""

_HOSTED_ID: Final = re.compile(r"(?:ws|fs|ci|ig|mcpl?|tsc)_")
"""The beginning of the ids of OpenAI's items of hosted tools: web and file search, code, images, MCP, tool search."""
_NO_PROVIDER: Final = ""


def untie(message: ai.ModelResponse) -> ai.ModelResponse:
    """Return a response that is valid without its reasoning; the response itself if it has no tie."""
    parts = [*map(_untie, message.parts)]
    return message if all(map(is_, parts, message.parts)) else replace(message, parts=parts)


def _untie(part: ai.ModelResponsePart) -> ai.ModelResponsePart:
    match part:
        case ai.TextPart(id=str()) | ai.ToolCallPart(id=str()):
            part = replace(part, id=None)
        case ai.NativeToolCallPart() | ai.NativeToolReturnPart():
            # The framework sends such a part by its id alone, and leaves it out if it is of another provider.
            if part.provider_name != _NO_PROVIDER and _HOSTED_ID.match(part.tool_call_id):
                part = replace(part, provider_name=_NO_PROVIDER)
        case _:
            pass
    details = part.provider_details or {}
    if SIGNATURE not in details:
        return part
    return replace(part, provider_details={name: value for name, value in details.items() if name != SIGNATURE})
