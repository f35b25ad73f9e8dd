"""What names a text, a message or a conversation by its content, whichever framework's messages it is written in.

Digests run over *atoms* (texts, media, calls, results), because frameworks cut one conversation into different messages. System
messages, thinking, ids, names and usage are left out.
"""

from __future__ import annotations

import hashlib
import json

from compaction_hooks.messages import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult

CHAIN_START = hashlib.sha256(b"compaction-hooks/1").hexdigest()
"""The digest of the empty conversation. The number names the way atoms are hashed."""


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text (hex). Lone surrogates are hashed as they stand."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def message_digest(message: Message) -> str:
    """Return the digest of one message's atoms, wherever it stands: the name of a pin."""
    return text_digest(
        json.dumps([_part_atom(part) for part in message.parts if not isinstance(part, Thinking | Opaque)])
    )


def _part_atom(part: object) -> object:
    match part:
        case Text(text=text):
            return ["text", text_digest(text)]
        case Media():
            return media_atom(part)
        case ToolCall():
            return ["call", part.name, text_digest(canonical_arguments(part.arguments))]
        case ToolResult():
            return ["result", text_digest(part.text), *map(media_atom, part.media)]
        case _:
            return None


def media_atom(media: Media) -> list[str]:
    """Return the atom of an image, a document or a sound."""
    return ["media", media.media_type.partition("/")[0], media.identity]


def canonical_arguments(arguments: str) -> str:
    """Return tool arguments as key-sorted compact JSON; text that is not JSON stays as it is.

    >>> canonical_arguments('{"b": 1, "a": 2}')
    '{"a":2,"b":1}'
    """
    try:
        value: object = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
