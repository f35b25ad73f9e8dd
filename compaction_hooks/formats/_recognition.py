"""The formats of the core, recognized by blocks and fields that only one of them has; the errors for parts of another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final, Protocol, cast

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError
from compaction_hooks.formats._json import ADAPTERS, Fields, fields_of, text_of


class KnownFormat(Protocol):
    """A format that can be recognized by its messages.

    Attributes:
        own_blocks: Types of content blocks of this format alone (calls, results, media), which no other format may ignore; keys
            of blocks if these have no type.
    """

    name: str
    own_blocks: frozenset[str]

    def wrote(self, fields: Fields, /) -> bool:
        """Return whether a message is surely in this format. False for plain text, which is the same in all formats."""
        ...


MODULES: Final = {
    "OpenAIChatFormat": "openai_chat",
    "OpenAIResponsesFormat": "openai_responses",
    "AnthropicFormat": "anthropic",
    "GeminiFormat": "gemini",
    "BedrockConverseFormat": "bedrock_converse",
}
"""The formats recognized by their messages, the first match first, each with its module; a new format is added here."""


def recognize(message: object) -> KnownFormat | None:
    """Return the format that a message is surely written in; None for plain text."""
    fields = None if package_of(message, ADAPTERS) else fields_of(message)
    if fields is None or _is_plain(fields):
        return None
    return next((known for known in _known_formats() if known.wrote(fields)), None)


def _is_plain(fields: Fields) -> bool:
    """Return whether a message is the same in all formats: then none of them is imported for it."""
    role, content = fields.get("role"), fields.get("content")
    is_text = role in ("system", "user", "assistant") and isinstance(content, str)
    return is_text and fields.keys() <= {"role", "content", "name"}


def _known_formats() -> Iterator[KnownFormat]:
    """Yield one format of each class; a class is imported when it is asked for a message."""
    return map(_known_format, MODULES)


@cache
def _known_format(name: str) -> KnownFormat:
    module = import_module(f"compaction_hooks.formats.{MODULES[name]}")
    return cast("KnownFormat", getattr(module, name)())


def refuse_block(block: Fields) -> None:
    """Refuse a block of another format than the conversation's.

    Args:
        block: A block that the conversation's format does not know.

    Raises:
        FormatError: another format owns the block.
    """
    kinds = {text_of(block["type"])} if "type" in block else block.keys()
    owner = next((known for known in _known_formats() if not known.own_blocks.isdisjoint(kinds)), None)
    if owner is not None:
        raise foreign_error(f"a content block of type {next(iter(kinds))!r}", owner)


def foreign_error(subject: str, owner: KnownFormat) -> FormatError:
    """Return the error for a part of another format; it names the `format` to set."""
    return FormatError(
        f"{subject} is of another format than its conversation: where all messages are like this one, write "
        f"format={type(owner).__name__}(), from compaction_hooks.formats; else keep to one format"
    )
