"""What names a text, a message or a conversation by its content, whichever framework's messages it is written in.

Digests run over *atoms* (texts, media, calls, results), because frameworks cut one conversation into different messages. System
messages, thinking, ids, names and usage are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring as _quoted
from json.encoder import encode_basestring_ascii as _quoted_ascii
from typing import TypeAlias, cast

from compaction_hooks.messages import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult

CHAIN_START = hashlib.sha256(b"compaction-hooks/1").hexdigest()
"""The digest of the empty conversation. The number names the way atoms are hashed."""


_json = json.JSONEncoder(separators=(",", ":")).encode
_canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
"""Made once: `json.dumps` makes an encoder for each text."""
_decode = json.JSONDecoder().raw_decode
_BEGINNINGS = frozenset("{[")


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text (hex). Lone surrogates are hashed as they stand."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


Originals: TypeAlias = Mapping[tuple[str, int, int, str], str]
"""By kind ("arguments" or "result"), run, ordinal and digest of a reduced text, the digest of the text it stands for."""


def run_digest(
    before: str, side: str, run: int, messages: Iterable[Message], ordinals: Mapping[str, int], originals: Originals
) -> str:
    """Return the chain after a run, whose atoms are its results in the order of their calls, its texts as one, media, calls.

    Args:
        before: The chain before it.
        side: Whose run it is.
        messages: What it says, without what no digest covers.
        ordinals: By id, the places of the calls that it answers.
        originals: What is known to have been reduced counts as the text that stood there before.
    """
    texts: list[str] = []
    media: list[str] = []
    calls: list[str] = []
    results: list[tuple[int, str]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                ordinal = ordinals.get(part.call_id, -1)
                digest = text_digest(part.text)
                results.append((ordinal, originals.get(("result", run, ordinal, digest), digest)))
                if part.media:
                    media += [_json(media_atom(item)) for item in part.media]
            elif isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                digest = text_digest(canonical_arguments(part.arguments))
                digest = originals.get(("arguments", run, len(calls), digest), digest)
                calls.append(f'["call",{_quoted_ascii(part.name)},{_quoted_ascii(digest)}]')
            elif isinstance(part, Media):
                media.append(_json(media_atom(part)))
    results.sort()
    atoms = [f'"{side}"', *[f"[{ordinal},{_quoted_ascii(digest)}]" for ordinal, digest in results]]
    if joined := "".join(texts):
        atoms.append(f'["text","{text_digest(joined)}"]')
    return text_digest(f"{before}[{','.join(atoms + media + calls)}]")


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
        value: object = parsed(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return arguments
    if type(value) is not dict:
        return _canonical_json(value)
    # The commonest by far, at half the cost: an encoder takes longer to begin than to write a few words.
    fields = cast("dict[str, object]", value)
    return "{" + ",".join([f"{_quoted(key)}:{_canonical(fields[key])}" for key in sorted(fields)]) + "}"


def _canonical(value: object) -> str:
    kind = type(value)
    if kind is str:
        return _quoted(cast(str, value))
    return repr(value) if kind is int else _canonical_json(value)


def parsed(text: str) -> object:
    """Return what JSON text holds, as `json.loads` does, in less time where nothing stands around it.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    if text[:1] in _BEGINNINGS:
        value, end = _decode(text)
        if end == len(text):
            return value
    return cast(object, json.loads(text))
