"""The messages that the formats of dicts make for a view: summaries with their fields and cache marks, merged user messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, cast

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats._fields import Fields, fields_of, list_of, message_fields
from compaction_hooks.messages import M

_SAYING: Final = frozenset({"role", "content", "type"})


class DictSummaries:
    """The part of a format that is about its summaries.

    Args:
        summary_fields: Added to each summary's dict, for the host's own use. OpenAI and Anthropic refuse fields they do not know:
            take them off before you send a view, or choose some that your gateway takes.

    Raises:
        ConfigurationError: a field is one in which messages say something.
    """

    _summary_fields: Fields = MappingProxyType({})
    _text_type: ClassVar[str] = "text"

    def __init__(self, *, summary_fields: Fields | None = None) -> None:
        fields = summary_fields or {}
        if not isinstance(cast(object, fields), Mapping) or not _SAYING.isdisjoint(fields):
            raise ConfigurationError(
                f"summary_fields={summary_fields!r} must be a dict of further fields, without role, content and type"
            )
        self._summary_fields = dict(fields)

    def cache_mark(self, message: Fields, /) -> object | None:
        """Return the last `cache_control` of a message, in its blocks or beside them; None without one."""
        fields = message_fields(message)
        return last_cache_mark(fields.get("content")) or fields.get("cache_control") or None

    def with_cache_mark(self, summary: Fields, mark: object, /) -> Fields:
        """Return a copy of a summary whose last block has this `cache_control`."""
        return {**summary, "content": marked_content(summary.get("content"), mark)}

    def merge(self, view: list[Fields], /) -> list[Fields]:
        """Return the view with user messages in a row as one; the very list if there are none."""
        return merge_rows(view, self._merge_pair)

    def _merge_pair(self, first: Fields, second: Fields) -> Fields | None:
        one, other = message_fields(first), message_fields(second)
        if not one.get("role") == other.get("role") == "user":
            return None
        content = merged_content(one.get("content"), other.get("content"), self._text_type)
        return {**other, "content": content}


def merge_rows(view: list[M], merge_pair: Callable[[M, M], M | None]) -> list[M]:
    """Return the view with messages in a row as one where two can be; the very list if none can.

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
    """Return two contents as one: two texts with a blank line between them, since strict templates take only text; else blocks."""
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
    """Return a content as a list of blocks, the last of them with this `cache_control`."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*(list_of(content) or ())]
    return [*blocks[:-1], {**(fields_of(blocks[-1]) or {}), "cache_control": mark}]
