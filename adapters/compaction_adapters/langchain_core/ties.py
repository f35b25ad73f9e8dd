"""Answers without the fields that tell a provider of earlier reasoning: OpenAI's ids of items, Google's signatures."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Final, cast

from langchain_core.messages import AIMessage

from compaction_adapters.langchain_core.blocks import Block, blocks_of
from compaction_hooks.formats import OpenAIResponsesFormat

_KWARGS: Final = ("__openai_function_call_ids__", "__gemini_function_call_thought_signatures__")
"""Keys of langchain-openai and langchain-google-genai in `additional_kwargs`, by call id."""
_EXTRAS: Final = ("item_id", "signature")
"""The same in the `extras` of a standard block."""
_TEXTS: Final = ("text", "refusal")
_CALLS: Final = ("tool_call", "invalid_tool_call", "server_tool_call")
"""Standard blocks whose id is that of the call. All other types that end in `_call` are items of Responses."""
_ITEM_ID: Final = "msg_"
_RESPONSES: Final = OpenAIResponsesFormat()


def untie(message: AIMessage) -> AIMessage:
    """Return an answer that is valid without its reasoning; the message itself if it has no tie."""
    content = blocks_of(message.content)
    blocks = [_untie_block(block) for block in content]
    changes: dict[str, object] = {} if all(map(is_, blocks, content)) else {"content": blocks}
    if not message.additional_kwargs.keys().isdisjoint(_KWARGS):
        changes["additional_kwargs"] = _without(message.additional_kwargs, *_KWARGS)
    if (message.id or "").startswith(_ITEM_ID):
        changes["id"] = f"lc_{message.id}"  # langchain-openai sends no such id
    return message.model_copy(update=changes) if changes else message


def _untie_block(block: object) -> object:
    if isinstance(block, str):
        return block
    fields = cast(Block, block)
    kind, extras = str(fields.get("type")), fields.get("extras")
    if kind.endswith("_call") and kind not in _CALLS:
        return _RESPONSES.untie(fields)
    gone = ("id", "thought_signature") if kind in _TEXTS else ("thought_signature",)
    if isinstance(extras, Mapping) and not extras.keys().isdisjoint(_EXTRAS):
        return {**_without(fields, *gone), "extras": _without(cast(Block, extras), *_EXTRAS)}
    return block if fields.keys().isdisjoint(gone) else _without(fields, *gone)


def _without(fields: Block, *names: str) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in names}
