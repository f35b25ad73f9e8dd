"""What the formats share: fields of a host message, media, blocks nobody knows, what the provider reported.

Everything here reads leniently: a block whose shape is not the documented one becomes an `Opaque` part and travels on untouched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats._fields import Fields, fields_of, list_of, text_of
from compaction_hooks.formats.usage import read_usage
from compaction_hooks.messages import (
    Media,
    Message,
    Opaque,
    Part,
    PartAddress,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compaction_hooks.text.json_text import is_nested, may_be_nested, parsed

BlockReader: TypeAlias = Callable[[Fields], Part | None]
"""Reads one content block of a known type; None when it does not have that type's shape."""


def to_json(value: object) -> str:
    """Return compact JSON with every character as it is; its strings and numbers in order if it cannot be JSON.

    JSON has no circles, no odd keys, and here no more than `MOST_NESTED` levels.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_jsonable)
    except (ValueError, TypeError, RecursionError):
        text = None
    if text is None or (may_be_nested(text) and is_nested(value)):
        return " ".join(_leaves(value))
    return text


def _jsonable(value: object) -> object:
    fields = fields_of(value)
    return str(value) if fields is None else fields


def _leaves(value: object) -> Iterable[str]:
    seen = set[int]()
    stack = [value]
    while stack:
        node = stack.pop()
        fields = fields_of(node)
        children = list_of(node) if fields is None else [leaf for pair in fields.items() for leaf in pair]
        if children is None:
            yield str(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.extend(reversed(children))


def as_json_text(value: object) -> str:
    """Return arguments as JSON text: a string exactly as it is, nothing as "", anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value)


def opaque(fields: Fields) -> Opaque:
    """Return a block as it is, under its own type, with the words in it that a reader may know."""
    kind = text_of(fields.get("type")) or "unknown"
    return Opaque(
        kind, to_json(fields), server_call_id(kind, fields), text_of(fields.get("name")), block_content(fields)
    )


# fmt: off
_UNSAID: Final = frozenset({
    "type", "id", "call_id", "tool_use_id", "tool_call_id", "item_id", "file_id", "container_id", "encrypted_content",
    "encrypted_index", "encrypted_stdout", "signature", "status",
    "block_type", "name", "tool_name", "server_name", "server_label", "caller", "index",
    "citations", "annotations", "logprobs", "cache_control", "media_type", "detail",
})
# fmt: on
"""Keys under which providers and frameworks write ids, sealed texts and labels; each labels the same block in its own way."""


_AS_TEXT: Final = frozenset({"arguments", "partial_json"})
"""Keys under which OpenAI and LangChain write a JSON object as text."""


def block_content(value: object) -> str:
    """Return the words and numbers of a block that a reader may know: of a hosted tool its query, titles and output.

    Ids, sealed texts, labels and files are left out, so that all frameworks' forms of a block have the same content.

    >>> block_content({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "parser"}})
    'parser'
    """
    return "\n".join(_words(value))


def _words(value: object) -> Iterator[str]:
    seen = set[int]()
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        key, node = stack.pop()
        fields, items = fields_of(node), list_of(node)
        if id(node) in seen and (fields is not None or items is not None):
            continue
        seen.add(id(node))
        if fields is not None:
            said = () if fields.get("type") == "base64" else sorted(map(str, fields.keys() - _UNSAID), reverse=True)
            stack += [(name, _as_object(fields.get(name)) if name in _AS_TEXT else fields.get(name)) for name in said]
        elif items is not None:
            stack += [(key, item) for item in reversed(items)]
        elif isinstance(node, str):
            yield from [node] if node and not node.startswith("data:") else ()
        elif node is not None and node is not False:
            yield f"{key}={to_json(node)}"


def _as_object(arguments: object) -> object:
    """The object in a JSON text; any other value as it is."""
    try:
        return parsed(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


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


def media_from_base64(data: str, media_type: str, *, name: str = "") -> Media:
    """Return media by the hash of its bytes; of the text itself where that is not base64."""
    try:
        raw = base64.b64decode(data)
    except ValueError:
        raw = _bytes(data)
    return Media(media_type, hashlib.sha256(raw).hexdigest(), name=name, data_chars=len(data))


def media_from_url(url: str, kind: str, *, low_detail: bool = False, name: str = "") -> Media:
    """Return media by the hash of the bytes in a data URL, or by reference for any other URL.

    Args:
        kind: MIME type or its first half, for where the URL does not tell.
    """
    if not url.startswith("data:"):
        return Media(kind, url, is_reference=True, low_detail=low_detail, name=name)
    header, _, body = url[len("data:") :].partition(",")
    media_type = header.partition(";")[0] or kind
    if header.endswith(";base64"):
        identity = media_from_base64(body, media_type).identity
    else:
        from urllib.parse import unquote_to_bytes  # rarely needed, and slow to import

        identity = hashlib.sha256(unquote_to_bytes(_bytes(body))).hexdigest()
    return Media(media_type, identity, low_detail=low_detail, name=name, data_chars=len(body))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_content(content: object, readers: Mapping[str, BlockReader]) -> tuple[Part, ...]:
    """Read a message's content: nothing for null or "", one part for a text, one for each block of a list.

    Raises:
        FormatError: it is none of these.
    """
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    return tuple([read_block(block, readers) for block in content_blocks(content)])


def content_blocks(content: object) -> Sequence[object]:
    """Return the blocks of a list content.

    Raises:
        FormatError: it is no list.
    """
    blocks = list_of(content)
    if blocks is None:
        raise FormatError(f'"content" must be a text, a list of parts or null, not {type(content).__name__}')
    return blocks


def read_block(block: object, readers: Mapping[str, BlockReader]) -> Part:
    """Read one block; as `Opaque` when its type or its shape is not known."""
    if isinstance(block, str):
        return Text(block)
    fields = fields_of(block)
    if fields is None:
        return Opaque(type(block).__name__, to_json(block), content=block_content(block))
    kind = fields.get("type")
    reader = readers.get(kind) if isinstance(kind, str) else None
    return (reader(fields) if reader else None) or opaque(fields)


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


def result_content(old: object, text: str, block_type: str) -> object:
    """Return the content of a result with another text: a text for a text, else one text block that keeps its cache mark.

    Args:
        block_type: The type of a text block where the old content has none.
    """
    blocks = list_of(old)
    if blocks is None:
        return text
    fields = [found for found in map(fields_of, blocks) if found is not None]
    first = next((block for block in fields if "text" in block), {"type": block_type})
    mark = next((block["cache_control"] for block in reversed(fields) if block.get("cache_control")), None)
    return [{**first, "text": text, **({} if mark is None else {"cache_control": mark})}]


def spoken_content(old: object, index: int, text: str) -> object:
    """Return a content whose part at `index` has another text: a text for a text, else the list with one other block."""
    if isinstance(old, str):
        return text
    blocks = list(content_blocks(old))
    blocks[index] = spoken_block(blocks[index], text)
    return blocks


def spoken_block(old: object, text: str) -> object:
    """Return a block of text or refusal with another text, its other fields the same objects; a block of media as one of text.

    The cache mark of media stays.
    """
    fields = fields_of(old)
    if fields is None:
        return text
    if fields.get("type") == "refusal" or "text" in fields:
        return {**fields, "refusal" if fields.get("type") == "refusal" else "text": text}
    mark = {key: fields[key] for key in ("cache_control",) if key in fields}
    return {"type": _TEXT_TYPES.get(text_of(fields.get("type")), "text"), "text": text, **mark}


_TEXT_TYPES: Final = {"input_image": "input_text", "input_file": "input_text"}
"""The type of a text in place of media of OpenAI's Responses; everywhere else it is "text"."""


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


def check_pieces(pieces: Sequence[int], count: int) -> None:
    """Refuse anything but a non-empty ascending choice among `count` pieces.

    Raises:
        ConfigurationError: it is not such a choice.
    """
    chosen = list(pieces)
    if not chosen or chosen != sorted(set(chosen)) or chosen[0] < 0 or chosen[-1] >= count:
        raise ConfigurationError(f"pieces={chosen} must be ascending indexes below {count}, at least one")


def part_at(pieces: Sequence[Message], address: PartAddress) -> Text | Media | ToolCall | ToolResult:
    """Return the text, call or result at an address, or media of a user.

    Raises:
        ConfigurationError: there is none.
    """
    piece, index = address
    if 0 <= piece < len(pieces) and 0 <= index < len(pieces[piece].parts):
        part = pieces[piece].parts[index]
        if isinstance(part, (Text, ToolCall, ToolResult)) or (isinstance(part, Media) and pieces[piece].role == "user"):
            return part
    raise ConfigurationError(f"address {address} names no text, tool call or result: take addresses from read()")


def call_at(pieces: Sequence[Message], address: PartAddress) -> ToolCall:
    """Return the call at an address.

    Raises:
        ConfigurationError: there is none.
    """
    part = part_at(pieces, address)
    if isinstance(part, ToolCall):
        return part
    raise ConfigurationError(f"address {address} names no tool call: take addresses from read()")


def without_items(content: object, gone: Container[int]) -> object:
    """Return a list without the items at these indexes; None when nothing is left, or where it is no list."""
    items = list_of(content) or ()
    return [item for index, item in enumerate(items) if index not in gone] or None
