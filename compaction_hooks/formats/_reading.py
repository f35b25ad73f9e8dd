"""Readers of providers' blocks, contents and messages into neutral parts.

Media are identified by their content, so that the same image has the same identity in every format.

Reading is lenient: a block whose shape is not the documented one becomes an `Opaque` part and is sent on unchanged.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from compaction_hooks.errors import FormatError
from compaction_hooks.formats._json import Fields, block_content, fields_of, list_of, text_of, to_json
from compaction_hooks.formats._owners import find_block_owner, foreign_error
from compaction_hooks.formats.answers import STOP_REASONS, read_usage
from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolResult,
)

BlockReader: TypeAlias = Callable[[Fields], Part | None]
"""A function that reads one content block of a known type; it returns None if the block does not have that type's shape."""

ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}

_URL_SAFE: Final = str.maketrans("-_", "+/")


def opaque(fields: Fields) -> Opaque:
    """Return a block as a part that is never looked into, with its type, its JSON and its readable words."""
    kind = text_of(fields.get("type")) or "unknown"
    if kind == "compaction" and (native := native_summary(fields)):
        return native
    call_id, name = server_call_id(kind, fields), text_of(fields.get("name"))
    return Opaque(kind, to_json(fields), call_id, name, block_content(fields), found_tools(kind, fields))


def found_tools(kind: str, fields: Fields) -> tuple[str, ...]:
    """Return the tools that a block makes known: those of Anthropic's references, or in the output of OpenAI's tool search.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool,
    https://developers.openai.com/api/docs/guides/tools-tool-search.
    """
    match kind:
        case "tool_reference":
            return (text_of(fields.get("tool_name")),)
        case "tool_search_tool_result":
            references = list_of((fields_of(fields.get("content")) or {}).get("tool_references")) or ()
            return tuple([text_of(each.get("tool_name")) for each in map(fields_of, references) if each])
        case "tool_search_output":
            return tuple([name for tool in list_of(fields.get("tools")) or () for name in _tool_names(tool)])
        case _:
            return ()


def _tool_names(tool: object) -> list[str]:
    """Return the names of a tool of OpenAI; of a namespace those of the tools in it."""
    fields = fields_of(tool) or {}
    name = text_of(fields.get("name")) or text_of(fields.get("server_label"))
    members = list_of(fields.get("tools"))
    return [name] if members is None else [f"{name}.{inner}" for each in members for inner in _tool_names(each)]


def native_summary(fields: Fields, kind: str = "compaction") -> NativeSummary | None:
    """Read a provider's own summary; None if it failed.

    Only Anthropic's block has `content` or a signature; both kinds may have `encrypted_content`.

    Args:
        kind: The kind of the part; another one than the block's own for a place in which Anthropic's rules do not hold.
    """
    content, is_signed = text_of(fields.get("content")), bool(fields.get("signature"))
    is_readable = "content" in fields or is_signed
    sealed = "" if is_readable else text_of(fields.get("encrypted_content"))
    if not content and not sealed:
        return None
    is_first = is_signed or bool(sealed)
    return NativeSummary(kind, to_json(fields), content=content, sealed=sealed, is_first=is_first)


def server_call_id(kind: str, fields: Fields) -> str:
    """Return the id shared by the call and the result of a tool that Anthropic ran itself; "" for any other block."""
    if kind in ("server_tool_use", "mcp_tool_use"):
        return text_of(fields.get("id"))
    return text_of(fields.get("tool_use_id")) if kind.endswith("_tool_result") else ""


def text_block(fields: Fields) -> Text | None:
    """Read a block with its text in "text"."""
    text = fields.get("text")
    return Text(text) if isinstance(text, str) else None


def thinking_block(fields: Fields) -> Thinking | None:
    """Read reasoning in the shape of Anthropic, signed or encrypted, or of OpenRouter's `reasoning_details`."""
    text = text_of(fields.get("thinking")) or text_of(fields.get("text")) or text_of(fields.get("summary"))
    sealed = len(text_of(fields.get("signature"))) + len(text_of(fields.get("data")))
    return Thinking(text, sealed) if text or sealed or "thinking" in fields else None


def media_from_base64(data: str, media_type: str, *, name: str = "") -> Media:
    """Return media identified by the hash of its bytes, or of the text itself if that is not base64."""
    try:
        raw = base64.b64decode(data)
    except ValueError:
        raw = _bytes(data)
    return Media(media_type, hashlib.sha256(raw).hexdigest(), name=name, data_chars=len(data))


def media_from_data(data: object, media_type: str, *, name: str = "") -> Media | None:
    """Return media from bytes, as Google's and Amazon's clients hold them, or from base64 of either alphabet; None without data."""
    if isinstance(data, bytes) and data:
        return Media(media_type, hashlib.sha256(data).hexdigest(), name=name, data_chars=base64_chars(len(data)))
    return (
        media_from_base64(data.translate(_URL_SAFE), media_type, name=name) if isinstance(data, str) and data else None
    )


def base64_chars(size: int) -> int:
    """Return the characters that bytes of this size take as base64."""
    return (size + 2) // 3 * 4


def media_from_url(url: str, kind: str, *, low_detail: bool = False, name: str = "") -> Media:
    """Return media identified by the hash of the bytes in a data URL, or by reference for any other URL.

    Args:
        kind: MIME type or its first half, used if the URL does not state one.
    """
    if not url.startswith("data:"):
        return Media(kind, url, is_reference=True, low_detail=low_detail, name=name)

    header, _, body = url[len("data:") :].partition(",")
    media_type = header.partition(";")[0] or kind
    if header.endswith(";base64"):
        identity = media_from_base64(body, media_type).identity
    else:
        identity = hashlib.sha256(unquote_to_bytes(_bytes(body))).hexdigest()
    return Media(media_type, identity, low_detail=low_detail, name=name, data_chars=len(body))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_content(content: object, readers: Mapping[str, BlockReader]) -> tuple[Part, ...]:
    """Read a message's content: no parts for null or "", one for a text, one for each block of a list.

    Raises:
        FormatError: the content has another type, or a block belongs to another format.
    """
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    return tuple([read_own_block(block, readers) for block in content_blocks(content)])


def read_own_block(block: object, readers: Mapping[str, BlockReader]) -> Part:
    """Read one block of a conversation; as `Opaque` if its type or its shape is not known.

    Raises:
        FormatError: it belongs to another format.
    """
    return read_block(block, readers, _own)


def content_blocks(content: object) -> Sequence[object]:
    """Return the blocks of a content that is a list.

    Raises:
        FormatError: it is not a list.
    """
    blocks = list_of(content)
    if blocks is None:
        raise FormatError(f'"content" must be a text, a list of parts or null, not {type(content).__name__}')
    return blocks


def _own(fields: Fields) -> Opaque:
    """Read an unknown block as `Opaque`.

    Raises:
        FormatError: another format owns the block.
    """
    kinds = {text_of(fields["type"])} if "type" in fields else fields.keys()
    if (owner := find_block_owner(kinds)) is not None:
        raise foreign_error(f"a content block of type {next(iter(kinds))!r}", owner)
    return opaque(fields)


def read_block(block: object, readers: Mapping[str, BlockReader], unknown: Callable[[Fields], Opaque] = opaque) -> Part:
    """Read one block; as `Opaque` if its type or its shape is not known."""
    if isinstance(block, str):
        return Text(block)

    fields = fields_of(block)
    if fields is None:
        return Opaque(type(block).__name__, to_json(block), content=block_content(block))

    kind = fields.get("type")
    reader = readers.get(kind) if isinstance(kind, str) else None
    return unknown(fields) if reader is None else reader(fields) or opaque(fields)


def read_result(
    content: object,
    readers: Mapping[str, BlockReader],
    call_id: object,
    *,
    name: object = None,
    is_error: bool = False,
) -> ToolResult:
    """Read a tool's result: texts and unknown blocks (as JSON) joined in order, media apart from them.

    Hosts are careless here: a single block instead of a list is read as a list of one, any other value as its JSON.
    """
    media: tuple[Media, ...] = ()
    finds: tuple[str, ...] = ()
    if isinstance(content, str):
        text = content
    else:
        blocks = () if content is None else list_of(content)
        parts = [read_block(block, readers) for block in ([content] if blocks is None else blocks)]
        text = "".join([part.text for part in parts if isinstance(part, (Text, Opaque))])
        media = tuple([part for part in parts if isinstance(part, Media)])
        finds = tuple([name for part in parts if isinstance(part, Opaque) for name in part.finds])

    return ToolResult(text_of(call_id), text, text_of(name), is_error, media, finds)


_SUMMARY_MARKS: Final = ("is_compact_summary", "compaction_summary")
"""Flags by which hosts mark a compaction summary: Claude Code exports, TunaCode."""
_CALL_FIELDS: Final = frozenset({"stop_reason", "finish_reason", "usage", "model"})
"""Fields of an answer that describe its model call."""


def build_message(role: Role, parts: tuple[Part, ...], fields: Fields) -> Message:
    """Return the neutral message; an answer with usage, model and stop reason if the host's message has them."""
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
