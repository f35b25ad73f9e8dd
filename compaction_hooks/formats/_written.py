"""The format a message is written in, told by the parts that only one format has; and the errors for parts of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError
from compaction_hooks.formats._common import BlockReader
from compaction_hooks.formats._fields import ADAPTERS, Fields, fields_of, list_of
from compaction_hooks.messages import Part

FORMAT_CLASSES: Final[Mapping[str, str]] = {
    "anthropic": "AnthropicFormat()",
    "openai_chat": "OpenAIChatFormat()",
    "openai_responses": "OpenAIResponsesFormat()",
}
"""By a format's name: how it is made, from compaction_hooks.formats."""

_CHAT_FIELDS: Final = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning_details"}
)
_CHAT_ROLES: Final = ("tool", "function")
ANTHROPIC_BLOCKS: Final = (
    "tool_use",
    "tool_result",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
)
"""Without these no call has its result. Documents and images may be in any format: LiteLLM takes them among chat messages."""
CHAT_BLOCKS: Final = ("image_url", "input_audio")
RESPONSES_BLOCKS: Final = ("input_text", "output_text", "input_image", "input_file", "computer_screenshot")
_BLOCKS: Final[Mapping[object, str]] = {
    **dict.fromkeys(ANTHROPIC_BLOCKS, "anthropic"),
    **dict.fromkeys(CHAT_BLOCKS, "openai_chat"),
    **dict.fromkeys(RESPONSES_BLOCKS, "openai_responses"),
}


def written_in(message: object) -> str | None:
    """Return the name of the format a message is surely written in; None for plain text, which all of them write alike."""
    fields = None if package_of(message, ADAPTERS) else fields_of(message)
    if fields is None:
        return None
    if fields.get("role") in _CHAT_ROLES or not _CHAT_FIELDS.isdisjoint(fields):
        return "openai_chat"
    if "role" not in fields:
        return "openai_responses" if "type" in fields else None
    content = fields.get("content")
    if isinstance(content, str):
        return "openai_responses" if fields.get("type") == "message" else None
    blocks = (block for block in map(fields_of, list_of(content) or ()) if block is not None)
    return next((name for name in map(_block_of, blocks) if name is not None), None)


def first_written_in(messages: Iterable[object]) -> str | None:
    """Return the name of the format that the first message tells which tells one; None where none does."""
    return next((name for name in map(written_in, messages) if name is not None), None)


def _block_of(block: Fields) -> str | None:
    kind = block.get("type")
    if kind in ("image", "document") and fields_of(block.get("source")) is not None:
        return "anthropic"
    return _BLOCKS.get(kind) if isinstance(kind, str) else None


def foreign_blocks(*kinds: str) -> dict[str, BlockReader]:
    """Return readers that refuse blocks of these kinds, which are another format's."""
    return dict.fromkeys(kinds, _refuse_block)


def _refuse_block(block: Fields) -> Part | None:
    kind = block.get("type")
    raise _foreign(f"a content block of type {kind!r}", _BLOCKS[kind])


def refuse_chat_message(fields: Fields) -> None:
    """Refuse an OpenAI chat message in a conversation of another format: one with tool calls, or of a tool.

    Raises:
        FormatError: it is one.
    """
    if fields.get("tool_calls") or fields.get("role") in _CHAT_ROLES:
        raise _foreign("a message with tool calls or of a tool", "openai_chat")


def unreadable(fields: Fields, own: str, wanted: str) -> FormatError:
    """Return the error for a message that a format cannot read: with the line to write where another one can."""
    name = written_in(fields)
    return FormatError(wanted) if name is None or name == own else _foreign("a message", name)


def _foreign(what: str, name: str) -> FormatError:
    return FormatError(
        f"{what} is of another format than its conversation: where all messages are like this one, write "
        f"format={FORMAT_CLASSES[name]}, from compaction_hooks.formats; else keep to one format"
    )
