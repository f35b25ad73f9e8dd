"""The common base of the formats of dicts: new messages, other texts, cache marks, merged user messages.

What a change leaves as it was is the same object as before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, cast

from compaction_hooks import arguments
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats._json import Fields, fields_of, list_of, message_fields, text_of
from compaction_hooks.formats._owners import CHAT_ROLES, Owner, find_owner, foreign_error
from compaction_hooks.formats._reading import content_blocks
from compaction_hooks.messages import Format, M, Media, Message, Part, PartAddress, Text, ToolCall, ToolResult

_SAYING: Final = frozenset({"role", "content", "type"})


@arguments.validate({})
class DictFormat(Format[Fields]):
    """Base of the formats of dicts, independent of the provider's shapes of tool calls and results.

    Args:
        summary_fields: Fields added to each summary's dict, for the host's own use. OpenAI and Anthropic refuse unknown fields:
            remove them before you send a view, or choose fields that your gateway accepts.

    Raises:
        ConfigurationError: the fields include role, content or type.
    """

    _owner: ClassVar[Owner]
    _text_type: ClassVar[str] = "text"
    _content: ClassVar[str] = "content"
    _merged_roles: ClassVar[tuple[str, ...]] = ("user",)
    _summary_fields: Fields = MappingProxyType({})

    def __init__(self, *, summary_fields: Fields | None = None) -> None:
        fields = summary_fields or {}
        if not isinstance(cast(object, fields), Mapping) or not _SAYING.isdisjoint(fields):
            wanted = "be a dict of further fields, without role, content and type"
            raise arguments.refusal("summary_fields", summary_fields, wanted)
        self._summary_fields = dict(fields)

    @abstractmethod
    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        """Return the fields of a message that differ if one of its parts has another text.

        Args:
            pieces: The neutral messages read from the message.
        """

    def _unreadable(self, fields: Fields, wanted: str) -> FormatError:
        """Return the error for a message without a role; it names the other format if one can read the message."""
        other = find_owner(fields)
        return FormatError(wanted) if other is None or other is self._owner else foreign_error("a message", other)

    def _refuse_chat_message(self, fields: Fields) -> None:
        """Refuse an OpenAI chat message with tool calls, or of a tool, in a conversation of another format."""
        if (fields.get("tool_calls") or fields.get("role") in CHAT_ROLES) and (other := find_owner(fields)):
            raise foreign_error("a message with tool calls or of a tool", other)
        self._refuse_parts(fields)

    def _refuse_parts(self, fields: Fields) -> None:
        """Refuse a Gemini content in a conversation of another format, which would read it as empty."""
        if "parts" in fields and (other := find_owner(fields)):
            raise foreign_error("a message with parts", other)

    def summary(self, text: str, /) -> Fields:
        """Return a new user message with this text, and with `summary_fields`."""
        return {**self.request(text), **self._summary_fields}

    def request(self, text: str, /) -> Fields:
        """Return a new user message with this text."""
        return {"role": "user", "content": text}

    def take(self, message: Fields, pieces: Sequence[int], /) -> Fields:
        """Return the message itself, since it has one piece only."""
        check_pieces(pieces, 1)
        return message

    def rewrite(self, message: Fields, texts: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy with other texts, result texts or arguments of tool calls; unchanged values are the same objects.

        Arguments and outputs that cannot be a bare text get the shape that their type demands.

        Raises:
            ConfigurationError: an address names neither a text nor a tool call nor a result.
        """
        if not texts:
            return message

        pieces, fields = self.read(message), message_fields(message)
        for address, text in texts.items():
            fields = {**fields, **self._changes(fields, pieces, address, text)}
        return fields

    def cache_mark(self, message: Fields, /) -> object | None:
        """Return the last `cache_control` of a message, in its blocks or in its own fields; None without one."""
        fields = message_fields(message)
        return last_cache_mark(fields.get("content")) or fields.get("cache_control") or None

    def with_cache_mark(self, summary: Fields, mark: object, /) -> Fields:
        """Return a copy of a summary whose last block has this `cache_control`."""
        return {**summary, "content": marked_content(summary.get("content"), mark)}

    def merge(self, view: list[Fields], /) -> list[Fields]:
        """Return the view with user messages in a row merged into one; the very list if there are none."""
        return merge_rows(view, self._merge_pair)

    def _merge_pair(self, first: Fields, second: Fields) -> Fields | None:
        one, other = message_fields(first), message_fields(second)
        if one.get("role") != other.get("role") or one.get("role") not in self._merged_roles:
            return None
        content = merged_content(one.get(self._content), other.get(self._content), self._text_type)
        return {**other, self._content: content}


class Located(NamedTuple):
    """A part, its index in the message's field that holds it (0 if that is no list), and this field."""

    at: int
    part: Part
    field: str = "content"


# -- changes of contents


def replace_result_text(old: object, text: str, block_type: str) -> object:
    """Return the content of a result with another text: a text for a text, else one text block with the old cache mark.

    Args:
        block_type: The type of the new text block if the old content has none.
    """
    blocks = list_of(old)
    if blocks is None:
        return text

    fields = [found for found in map(fields_of, blocks) if found is not None]
    first = next((block for block in fields if "text" in block), {"type": block_type})
    mark = next((block["cache_control"] for block in reversed(fields) if block.get("cache_control")), None)
    return [{**first, "text": text, **({} if mark is None else {"cache_control": mark})}]


def replace_text(old: object, index: int, text: str) -> object:
    """Return a content with another text in the part at `index`: a text for a text, else the list with one other block."""
    if isinstance(old, str):
        return text
    blocks = list(content_blocks(old))
    blocks[index] = replace_block_text(blocks[index], text)
    return blocks


def replace_block_text(old: object, text: str) -> object:
    """Return a block of text or refusal with another text, or a block of text in place of media, with its cache mark."""
    fields = fields_of(old)
    if fields is None:
        return text
    if fields.get("type") == "refusal" or "text" in fields:
        return {**fields, "refusal" if fields.get("type") == "refusal" else "text": text}

    mark = {key: fields[key] for key in ("cache_control",) if key in fields}
    return {"type": _TEXT_TYPES.get(text_of(fields.get("type")), "text"), "text": text, **mark}


_TEXT_TYPES: Final = {"input_image": "input_text", "input_file": "input_text"}
"""The type of a text block in place of media of OpenAI Responses; in all other formats it is "text"."""


def check_pieces(pieces: Sequence[int], count: int) -> None:
    """Refuse indexes that are not a non-empty, ascending choice among `count` pieces.

    Raises:
        ConfigurationError: they are no such choice.
    """
    chosen = list(pieces)
    if not chosen or chosen != sorted(set(chosen)) or chosen[0] < 0 or chosen[-1] >= count:
        raise ConfigurationError(f"pieces={format_value(chosen)} must be ascending indexes below {count}, at least one")


def part_at(pieces: Sequence[Message], address: PartAddress) -> Text | Media | ToolCall | ToolResult:
    """Return the text, tool call or result at an address, or media of a user.

    Raises:
        ConfigurationError: the address names none of these.
    """
    piece, index = address
    if 0 <= piece < len(pieces) and 0 <= index < len(pieces[piece].parts):
        part = pieces[piece].parts[index]
        if isinstance(part, (Text, ToolCall, ToolResult)) or (isinstance(part, Media) and pieces[piece].role == "user"):
            return part
    raise ConfigurationError(
        f"address {format_value(address)} names no text, tool call or result: take addresses from read()"
    )


def call_at(pieces: Sequence[Message], address: PartAddress) -> ToolCall:
    """Return the tool call at an address.

    Raises:
        ConfigurationError: the address names no tool call.
    """
    part = part_at(pieces, address)
    if isinstance(part, ToolCall):
        return part
    raise ConfigurationError(f"address {format_value(address)} names no tool call: take addresses from read()")


def without_items(content: object, gone: Container[int]) -> object:
    """Return a list without the items at these indexes; None if no item is left, or if the content is no list."""
    return [item for index, item in enumerate(list_of(content) or ()) if index not in gone] or None


def merge_rows(view: list[M], merge_pair: Callable[[M, M], M | None]) -> list[M]:
    """Return the view with adjacent messages merged if possible; the very list if none can be merged.

    Args:
        merge_pair: Returns a copy of the second message with the content of both; None unless both are the user's.
    """
    merged: list[M] = []
    for message in view:
        both = merge_pair(merged[-1], message) if merged else None
        if both is None:
            merged.append(message)
        else:
            merged[-1] = both
    return merged if len(merged) < len(view) else view


def merged_content(first: object, second: object, text_type: str = "text") -> object:
    """Return two contents as one: two texts joined by a blank line, since strict chat templates accept only text; else blocks."""
    if isinstance(first, str) and isinstance(second, str):
        return "\n\n".join(filter(None, (first, second)))
    return [block for content in (first, second) for block in _blocks(content, text_type)]


def _blocks(content: object, text_type: str) -> list[object]:
    if isinstance(content, str):
        return [{"type": text_type, "text": content}] if content else []
    return [*(list_of(content) or ())]


def last_cache_mark(content: object) -> object | None:
    """Return the `cache_control` of the last block that has one, blocks in a tool's result included; None without one."""
    for block in reversed(list_of(content) or ()):
        fields = fields_of(block) or {}
        if mark := fields.get("cache_control") or last_cache_mark(fields.get("content")):
            return mark
    return None


def marked_content(content: object, mark: object) -> list[object]:
    """Return a content as a list of blocks, the last one with this `cache_control`."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*(list_of(content) or ())]
    return [*blocks[:-1], {**(fields_of(blocks[-1]) or {}), "cache_control": mark}]
