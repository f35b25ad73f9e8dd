"""The formats that the core knows, told apart by what only one of them has; and the errors for parts of another."""

from __future__ import annotations

from typing import Final, Protocol

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError
from compaction_hooks.formats._fields import ADAPTERS, Fields, fields_of, text_of


class KnownFormat(Protocol):
    """A format that can be told by its messages.

    Attributes:
        own_blocks: Types of content blocks that another format must not pass over: calls, results and media of this one alone.
    """

    name: str
    own_blocks: frozenset[str]

    def wrote(self, fields: Fields, /) -> bool:
        """Whether a message is surely in this format; plain text all formats write alike."""
        ...


KNOWN: Final[list[KnownFormat]] = []
"""The formats there are, entered by `compaction_hooks.formats`; the first that wrote a message is the one it is read by."""


def written_in(message: object) -> KnownFormat | None:
    """Return the format that a message is surely written in; None for plain text."""
    fields = None if package_of(message, ADAPTERS) else fields_of(message)
    return next((known for known in KNOWN if known.wrote(fields)), None) if fields is not None else None


def refuse_block(block: Fields) -> None:
    """Refuse a block that another format than that of its conversation owns.

    Args:
        block: One that the conversation's format does not know.

    Raises:
        FormatError: it is owned by another one.
    """
    kind = text_of(block.get("type"))
    owner = next((known for known in KNOWN if kind in known.own_blocks), None)
    if owner is not None:
        raise foreign(f"a content block of type {kind!r}", owner)


def foreign(what: str, owner: KnownFormat) -> FormatError:
    """Return the error for a part of another format, with the line to write."""
    return FormatError(
        f"{what} is of another format than its conversation: where all messages are like this one, write "
        f"format={type(owner).__name__}(), from compaction_hooks.formats; else keep to one format"
    )
