"""Gemini's thought signatures: Google's placeholder for one, and their places in chat messages.

Chat messages have them in `extra_content` (Google's endpoints for OpenAI's clients), in `provider_specific_fields` or in the id of
a tool call (LiteLLM 1.109), or for the first tool call in `reasoning_details` (OpenRouter).
"""

from __future__ import annotations

from typing import Final

from compaction_hooks.formats._json import Fields, fields_of, list_of, text_of
from compaction_hooks.formats._reading import base64_chars

PLACEHOLDER: Final = "skip_thought_signature_validator"
"""The signature that Google documents for calls of other models (https://ai.google.dev/gemini-api/docs/thought-signatures)."""

_NAME: Final = "thought_signature"
_OF_TEXT: Final = "thought_signatures"
_ADDED: Final = "provider_specific_fields"
_IN_ID: Final = "__thought__"
_DETAILS: Final = "reasoning_details"
_OPENROUTER: Final = ("reasoning.encrypted", "google-gemini-v1")
"""Type and format of a detail with a signature (https://openrouter.ai/docs/guides/best-practices/reasoning-tokens)."""
_NESTED: Final = ("extra_content", _ADDED, "google", "vertex", "function")
_HOLDERS: Final = frozenset({"extra_content", _ADDED})


def sealed_chars(signature: object) -> int:
    """Return the characters that a signature takes in a request: it is a text, or bytes that are sent as base64."""
    return base64_chars(len(signature)) if isinstance(signature, bytes) else len(text_of(signature))


def count_signature_chars(call: Fields, function: Fields) -> int:
    """Return the length of the signature of a tool call in a chat message; 0 without one."""
    id_ = text_of(call.get("id"))
    if _IN_ID not in id_ and _HOLDERS.isdisjoint(call) and _HOLDERS.isdisjoint(function):
        return 0
    return len(_find(call) or id_.partition(_IN_ID)[2])


def signs_call(detail: Fields, message: Fields) -> bool:
    """Return whether an entry of `reasoning_details` is the signature of the message's first tool call."""
    return bool(message.get("tool_calls")) and (detail.get("type"), detail.get("format")) == _OPENROUTER


def count_detail_chars(message: Fields) -> int:
    """Return the length of the first tool call's signature in `reasoning_details`; 0 without one."""
    details = map(fields_of, list_of(message.get(_DETAILS)) or ())
    return sum(len(text_of(detail.get("data"))) for detail in details if detail and signs_call(detail, message))


def untie_chat(message: Fields) -> Fields:
    """Return a chat message without signatures, its tool calls with the placeholder; the message itself if it has none."""
    calls, details = list_of(message.get("tool_calls")) or (), list_of(message.get(_DETAILS)) or ()
    legacy, added = fields_of(message.get("function_call")) or {}, fields_of(message.get(_ADDED)) or {}
    old = {"tool_calls": [*calls], _DETAILS: [*details], "function_call": legacy, _ADDED: added}

    made = {
        "tool_calls": [_untie_call(call) for call in calls],
        _DETAILS: [_untie_detail(detail, message) for detail in details],
        "function_call": _replace(legacy),
        _ADDED: {name: value for name, value in added.items() if name != _OF_TEXT},
    }

    changes = {name: value for name, value in made.items() if value != old[name]}
    return {**message, **changes} if changes else message


def _untie_call(call: object) -> object:
    fields = fields_of(call) or {}
    made = _replace(fields)
    if _IN_ID in text_of(fields.get("id")) and not _find(fields):
        # The id must stay that of the result. LiteLLM reads this field before the id.
        made = {**fields, _ADDED: {**(fields_of(fields.get(_ADDED)) or {}), _NAME: PLACEHOLDER}}
    return call if made is fields else made


def _untie_detail(detail: object, message: Fields) -> object:
    fields = fields_of(detail) or {}
    is_tied = signs_call(fields, message) and fields.get("data") != PLACEHOLDER
    return {**fields, "data": PLACEHOLDER} if is_tied else detail


def _find(fields: Fields) -> str:
    """Return the first signature in these fields, "" without one."""
    nested = [fields_of(fields.get(name)) for name in _NESTED]
    return text_of(fields.get(_NAME)) or next((found for inner in nested if inner and (found := _find(inner))), "")


def _replace(fields: Fields) -> Fields:
    """Return the fields with the placeholder for each signature; the very fields if they have no other."""
    changes: dict[str, object] = {}
    if text_of(fields.get(_NAME)) not in ("", PLACEHOLDER):
        changes[_NAME] = PLACEHOLDER
    for name in _NESTED:
        inner = fields_of(fields.get(name))
        if inner and (made := _replace(inner)) is not inner:
            changes[name] = made
    return {**fields, **changes} if changes else fields
