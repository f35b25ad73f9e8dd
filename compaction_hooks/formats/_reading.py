"""Blocks, contents and messages of providers, read into neutral parts.

Everything here reads leniently: a block whose shape is not the documented one becomes an `Opaque` part and travels on untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from compaction_hooks.errors import FormatError
from compaction_hooks.formats._fields import Fields, fields_of, list_of, text_of
from compaction_hooks.formats._json import block_content, to_json
from compaction_hooks.formats._written import refuse_block
from compaction_hooks.formats.usage import read_usage
from compaction_hooks.messages import Media, Message, Opaque, Part, Role, StopReason, Text, Thinking, ToolResult

BlockReader: TypeAlias = Callable[[Fields], Part | None]
"""Reads one content block of a known type; None when it does not have that type's shape."""

ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def opaque(fields: Fields) -> Opaque:
    """Return a block as it is, under its own type, with the words in it that a reader may know."""
    kind = text_of(fields.get("type")) or "unknown"
    return Opaque(
        kind, to_json(fields), server_call_id(kind, fields), text_of(fields.get("name")), block_content(fields)
    )


def server_call_id(kind: str, fields: Fields) -> str:
    """Return what joins Anthropic's blocks of a tool that it ran itself, the call and its result; "" for any other block."""
    if kind in ("server_tool_use", "mcp_tool_use"):
        return text_of(fields.get("id"))
    return text_of(fields.get("tool_use_id")) if kind.endswith("_tool_result") else ""


def text_block(fields: Fields) -> Text | None:
    """Read a block that holds its text in "text"."""
    text = fields.get("text")
    return Text(text) if isinstance(text, str) else None


def thinking_block(fields: Fields) -> Thinking | None:
    """Read reasoning as Anthropic writes it, signed or encrypted, or as OpenRouter's `reasoning_details` do."""
    text = text_of(fields.get("thinking")) or text_of(fields.get("text")) or text_of(fields.get("summary"))
    sealed = len(text_of(fields.get("signature"))) + len(text_of(fields.get("data")))
    return Thinking(text, sealed) if text or sealed or "thinking" in fields else None


def read_content(content: object, readers: Mapping[str, BlockReader]) -> tuple[Part, ...]:
    """Read a message's content: nothing for null or "", one part for a text, one for each block of a list.

    Raises:
        FormatError: it is none of these, or a block is another format's.
    """
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    return tuple([read_block(block, readers, _own) for block in content_blocks(content)])


def content_blocks(content: object) -> Sequence[object]:
    """Return the blocks of a list content.

    Raises:
        FormatError: it is no list.
    """
    blocks = list_of(content)
    if blocks is None:
        raise FormatError(f'"content" must be a text, a list of parts or null, not {type(content).__name__}')
    return blocks


def _own(fields: Fields) -> Opaque:
    """Return an unknown block as it is, unless another format owns it."""
    refuse_block(fields)
    return opaque(fields)


def read_block(block: object, readers: Mapping[str, BlockReader], unknown: Callable[[Fields], Opaque] = opaque) -> Part:
    """Read one block; as `Opaque` when its type or its shape is not known."""
    if isinstance(block, str):
        return Text(block)
    fields = fields_of(block)
    if fields is None:
        return Opaque(type(block).__name__, to_json(block), content=block_content(block))
    kind = fields.get("type")
    reader = readers.get(kind) if isinstance(kind, str) else None
    return unknown(fields) if reader is None else reader(fields) or opaque(fields)


def read_result(
    content: object, readers: Mapping[str, BlockReader], call_id: object, *, name: object = None, is_error: bool = False
) -> ToolResult:
    """Read what a tool answered: texts and unknown blocks (as JSON) joined in order, media beside them.

    Hosts are careless here: a single block instead of a list is read as one, any other value as its JSON.
    """
    if isinstance(content, str):
        return ToolResult(text_of(call_id), content, text_of(name), is_error)
    blocks = () if content is None else list_of(content)
    parts = [read_block(block, readers) for block in ([content] if blocks is None else blocks)]
    return ToolResult(
        text_of(call_id),
        "".join([part.text for part in parts if isinstance(part, (Text, Opaque))]),
        text_of(name),
        is_error,
        tuple([part for part in parts if isinstance(part, Media)]),
    )


STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "complete",
    "end_turn": "complete",
    "stop_sequence": "complete",
    "complete": "complete",
    "completed": "complete",
    "pause_turn": "complete",
    "refusal": "complete",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "window",
    "model_length": "window",
    "error": "error",
    "failed": "error",
    "content_filter": "error",
    "aborted": "aborted",
    "cancelled": "aborted",
}
"""The words of OpenAI (chat and Responses), Anthropic, Mistral and pi for how an answer ended."""

_SUMMARY_MARKS: Final = ("is_compact_summary", "compaction_summary")
"""Flags by which hosts mark a compaction summary: Claude Code exports, TunaCode."""
_CALL_FIELDS: Final = frozenset({"stop_reason", "finish_reason", "usage", "model"})
"""What tells of the call that made an answer."""


def build_message(role: Role, parts: tuple[Part, ...], fields: Fields) -> Message:
    """Return the neutral message, with what the host's message says about the call that produced it."""
    is_summary = fields.get(_SUMMARY_MARKS[0]) is True or fields.get(_SUMMARY_MARKS[1]) is True
    if role != "assistant" or _CALL_FIELDS.isdisjoint(fields):
        return Message(role=role, parts=parts, is_summary=is_summary)
    reason = text_of(fields.get("stop_reason")) or text_of(fields.get("finish_reason"))
    return Message(
        role=role,
        parts=parts,
        usage=read_usage(fields["usage"]) if "usage" in fields else None,
        model=text_of(fields.get("model")) or None,
        stop_reason=STOP_REASONS.get(reason),
        is_summary=is_summary,
    )
