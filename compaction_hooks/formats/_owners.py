"""Which messages and content blocks are surely of which format, as data: a list of messages tells its own format.

Plain text is the same in all formats, so it has no owner. A format names its owner; whatever reads a message of another owner
raises the error that names the format to set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError
from compaction_hooks.formats._json import ADAPTERS, Fields, fields_of, list_of, text_of

CHAT_ROLES: Final = ("tool", "function")
"""Roles of OpenAI chat that no other format has."""


class Owner(NamedTuple):
    """A format that can be recognized by its messages.

    Attributes:
        name: The name of its class in `compaction_hooks.formats`.
        blocks: Types of content blocks of this format alone (calls, results, media), which no other format may ignore; keys of
            blocks if these have no type.
        wrote: Returns whether a message is surely in this format.
    """

    name: str
    blocks: frozenset[str]
    wrote: Callable[[Fields], bool]


_CHAT_BLOCKS: Final = frozenset({"image_url", "input_audio"})
_CHAT_FIELDS: Final = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning_details"}
)
_RESPONSES_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file", "computer_screenshot"})
_ANTHROPIC_BLOCKS: Final = frozenset(
    {
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
    }
)
_CONVERSE_BLOCKS: Final = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent"}
)
_CONVERSE_KEYS: Final = _CONVERSE_BLOCKS | {"text", "image", "document", "video", "audio"}


def _has_block_of(fields: Fields, kinds: Collection[str]) -> bool:
    blocks = map(fields_of, list_of(fields.get("content")) or ())
    return any(block is not None and text_of(block.get("type")) in kinds for block in blocks)


def _is_chat(fields: Fields) -> bool:
    has_own_field = fields.get("role") in CHAT_ROLES or not _CHAT_FIELDS.isdisjoint(fields)
    return has_own_field or _has_block_of(fields, _CHAT_BLOCKS)


def _is_responses(fields: Fields) -> bool:
    is_text_message = fields.get("type") == "message" and isinstance(fields.get("content"), str)
    is_item = "type" in fields if "role" not in fields else is_text_message
    return is_item or _has_block_of(fields, _RESPONSES_BLOCKS)


def _is_anthropic(fields: Fields) -> bool:
    """Return whether a message has a block of Anthropic's own; also an image or a document, but only with Anthropic's `source`."""
    # LiteLLM accepts blocks of these types among chat messages, in another shape.
    blocks = [fields_of(block) or {} for block in list_of(fields.get("content")) or ()]
    has_source = any(
        block.get("type") in ("image", "document") and fields_of(block.get("source")) is not None for block in blocks
    )
    return has_source or _has_block_of(fields, _ANTHROPIC_BLOCKS)


def _is_gemini(fields: Fields) -> bool:
    """Return whether a message has parts, and these have no type."""
    parts = list_of(fields.get("parts"))
    return parts is not None and not any("type" in (fields_of(part) or {}) for part in parts)


def _is_converse(fields: Fields) -> bool:
    """Return whether all blocks of a message have no type, but keys of Converse."""
    blocks = [fields_of(block) or {} for block in list_of(fields.get("content")) or ()]
    return bool(blocks) and not any("type" in block or _CONVERSE_KEYS.isdisjoint(block) for block in blocks)


OPENAI_CHAT: Final = Owner("OpenAIChatFormat", _CHAT_BLOCKS, _is_chat)
OPENAI_RESPONSES: Final = Owner("OpenAIResponsesFormat", _RESPONSES_BLOCKS, _is_responses)
ANTHROPIC: Final = Owner("AnthropicFormat", _ANTHROPIC_BLOCKS, _is_anthropic)
GEMINI: Final = Owner("GeminiFormat", frozenset(), _is_gemini)
BEDROCK_CONVERSE: Final = Owner("BedrockConverseFormat", _CONVERSE_BLOCKS, _is_converse)

OWNERS: Final = (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, BEDROCK_CONVERSE)
"""The first match counts. A new format is added here."""


def find_owner(message: object) -> Owner | None:
    """Return the owner of a message; None for plain text, and for an object of a framework."""
    fields = None if package_of(message, ADAPTERS) else fields_of(message)
    return None if fields is None else next((owner for owner in OWNERS if owner.wrote(fields)), None)


def find_block_owner(kinds: Collection[str]) -> Owner | None:
    """Return the owner of a content block, by its type or, without one, its keys; None if it is of no format alone."""
    return next((owner for owner in OWNERS if not owner.blocks.isdisjoint(kinds)), None)


def foreign_error(subject: str, owner: Owner) -> FormatError:
    """Return the error for a part of another format; it names the `format` to set."""
    return FormatError(
        f"{subject} is of another format than its conversation: where all messages are like this one, write "
        f"format={owner.name}(), from compaction_hooks.formats; else keep to one format"
    )
