"""The common base of the formats of dicts: new messages, other texts, cache marks, merged user messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, cast

from compaction_hooks import arguments
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats._json import Fields, fields_of, list_of, message_fields, text_of
from compaction_hooks.formats._recognition import foreign_error, recognize
from compaction_hooks.formats._rewriting import (
    check_pieces,
    last_cache_mark,
    marked_content,
    merge_rows,
    merged_content,
)
from compaction_hooks.messages import Format, Message, PartAddress

CHAT_ROLES: Final = ("tool", "function")
"""Roles of OpenAI chat that no other format has."""
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

    own_blocks: frozenset[str]
    _text_type: ClassVar[str] = "text"
    _content: ClassVar[str] = "content"
    _merged_roles: ClassVar[tuple[str, ...]] = ("user",)
    _summary_fields: Fields = MappingProxyType({})

    def __init__(self, *, summary_fields: Fields | None = None) -> None:
        fields = summary_fields or {}
        if not isinstance(cast(object, fields), Mapping) or not _SAYING.isdisjoint(fields):
            raise ConfigurationError(
                f"summary_fields={summary_fields!r} must be a dict of further fields, without role, content and type"
            )
        self._summary_fields = dict(fields)

    @abstractmethod
    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        """Return the fields of a message that differ if one of its parts has another text.

        Args:
            pieces: The neutral messages read from the message.
        """

    def wrote(self, fields: Fields, /) -> bool:
        """Return whether a message is surely in this format. False for plain text, which is the same in all formats."""
        blocks = map(fields_of, list_of(fields.get(self._content)) or ())
        return any(block is not None and self._owns(block) for block in blocks)

    def _owns(self, block: Fields) -> bool:
        return text_of(block.get("type")) in self.own_blocks

    def _unreadable(self, fields: Fields, wanted: str) -> FormatError:
        """Return the error for a message without a role; it names the other format if one can read the message."""
        other = recognize(fields)
        return (
            FormatError(wanted) if other is None or isinstance(self, type(other)) else foreign_error("a message", other)
        )

    def _refuse_chat_message(self, fields: Fields) -> None:
        """Refuse an OpenAI chat message with tool calls, or of a tool, in a conversation of another format."""
        if (fields.get("tool_calls") or fields.get("role") in CHAT_ROLES) and (other := recognize(fields)):
            raise foreign_error("a message with tool calls or of a tool", other)
        self._refuse_parts(fields)

    def _refuse_parts(self, fields: Fields) -> None:
        """Refuse a Gemini content in a conversation of another format, which would read it as empty."""
        if "parts" in fields and (other := recognize(fields)):
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
