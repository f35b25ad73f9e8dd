"""Digests that name a text, a message or a conversation by its content, in the messages of any framework.

Digests run over *atoms* (texts, media, calls, results, blocks of tools that the provider runs), because frameworks cut one
conversation into different messages. System messages, thinking, ids, names and usage are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from compaction_hooks.messages import Media, Message, Opaque, Text, ToolCall, ToolResult
from compaction_hooks.text.json_text import parse_json

MAX_CANONICAL_CHARS: Final = 1_000_000
"""Longer arguments are hashed as they are: parsing 100 million characters as JSON stops every thread for a second."""

CHAIN_START = hashlib.sha256(b"compaction-hooks/1").hexdigest()
"""The digest of the empty conversation. The number names the way of making digests."""

_json = json.JSONEncoder(separators=(",", ":")).encode
_canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
"""Made once: `json.dumps` makes an encoder for each text."""


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text (hex). Lone surrogates are hashed too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


Originals: TypeAlias = Mapping[tuple[str, int, int, str], str]
"""By kind ("arguments" or "result"), run, ordinal and digest of a reduced text, the digest of the original text."""


def number_calls(messages: Iterable[Message]) -> dict[str, tuple[int, ToolCall]]:
    """Return the tool calls of a run with their places among its calls, by id."""
    calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
    return {call.id: (ordinal, call) for ordinal, call in enumerate(calls)}


def run_digest(
    before: str,
    side: str,
    run: int,
    messages: Iterable[Message],
    answered: Mapping[str, tuple[int, ToolCall]],
    originals: Originals,
) -> str:
    """Return the chain after a run: its results in the order of their calls, its texts as one, media, calls, blocks as one.

    Args:
        before: The chain before it.
        side: The side of the run.
        messages: The messages of the run that digests cover.
        answered: By id, the tool calls that the run answers, with their places.
        originals: A text that is known to be reduced counts as its original.
    """
    texts: list[str] = []
    media: list[object] = []
    calls: list[object] = []
    results: list[tuple[int | str, ...]] = []
    blocks: list[str] = []

    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                ordinal, _ = answered.get(part.call_id, (-1, None))
                digest = text_digest(part.text)
                digest = originals.get(("result", run, ordinal, digest), digest)
                results.append((ordinal, digest, "error") if part.is_error else (ordinal, digest))
                media += map(media_atom, part.media)
            elif isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                digest = text_digest(canonical_arguments(part.arguments))
                digest = originals.get(("arguments", run, len(calls), digest), digest)
                calls.append(["call", part.name, digest])
            elif isinstance(part, Media):
                media.append(media_atom(part))
            elif isinstance(part, Opaque) and part.content:
                blocks.append(part.content)

    atoms: list[object] = [side, *sorted(results)]
    if joined := "".join(texts):
        atoms.append(["text", text_digest(joined)])
    atoms += media + calls
    if blocks:  # joined, since frameworks write a call and its result as one block or as two
        atoms.append(["block", text_digest("\n".join(blocks))])
    return text_digest(before + _json(atoms))


def message_digest(message: Message) -> str:
    """Return the digest of one message's atoms, at any place in a conversation: the name of a pin."""
    return run_digest("", "", 0, [message], {}, {})


def media_atom(media: Media) -> list[str]:
    """Return the atom of an image, a document or a sound."""
    return ["media", media.media_type.partition("/")[0], media.identity]


def canonical_arguments(arguments: str) -> str:
    """Return tool arguments as key-sorted compact JSON. Text that is not JSON, nested too deep or very long stays the same.

    >>> canonical_arguments('{"b": 1, "a": 2}')
    '{"a":2,"b":1}'
    """
    if len(arguments) > MAX_CANONICAL_CHARS:
        return arguments
    try:
        return _canonical_json(parse_json(arguments) if arguments.strip() else {})
    except (ValueError, RecursionError):
        return arguments
